import { Ref } from '../common/ref.ts';

/** Characters of a message in a trace. */
const MAX_TEXT = 200;
/** Levels of a message in a trace. */
const MAX_DEPTH = 6;

/** A message as one short line of text, which is the same in every run. Never throws. */
export function describeMessage(message: unknown): string {
  let text: string;
  try {
    text = describe(message, MAX_DEPTH);
  } catch {
    text = '(unreadable)';
  }
  return text.length > MAX_TEXT ? `${text.slice(0, MAX_TEXT)}...` : text;
}

function describe(value: unknown, levels: number): string {
  if (typeof value === 'string') return JSON.stringify(value);
  if (typeof value === 'function') return '(function)';
  if (typeof value !== 'object' || value === null) return String(value);
  if (value instanceof Ref) return value.path;
  if (value instanceof Error) return `${value.name}: ${value.message}`;
  if (levels === 0) return '...';
  if (Array.isArray(value)) return `[${value.map((each) => describe(each, levels - 1)).join(', ')}]`;
  const { constructor: made } = value;
  if (made !== Object && made !== undefined) return `(${made.name})`;
  const members = Object.entries(value).map(([name, each]) => `${name}: ${describe(each, levels - 1)}`);
  return `{ ${members.join(', ')} }`;
}
