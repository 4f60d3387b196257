/** Takes the secrets of a container out of what it printed, before that is told to others. */
import { MAX_LINE_BYTES } from '../../../proto/ports/engine.ts';

const MASK = '***';
/** What is shorter is in every other text by chance. */
const MIN_LENGTH = 4;

/**
 * `text` without the values of `secrets`: neither whole, nor a line of one with several, nor, where `text` was cut at
 * its end, the beginning of one there. Values of fewer than four characters stay.
 */
export function withoutSecrets(text: string, secrets: Iterable<string>, isCut = false): string {
  const wanted = wantedOf(secrets);
  const masked = withoutWhole(text, wanted);
  return isCut ? withoutBeginning(masked, wanted) : masked;
}

/**
 * The end of a log, `<stamp> <text>` a line, without the values of `secrets`. Pieces of a line that was too long for
 * one are one again: a secret may stand where it was cut. So may one where the log begins or ends.
 */
export function linesWithoutSecrets(lines: readonly string[], secrets: Iterable<string>): readonly string[] {
  const wanted = wantedOf(secrets);
  const whole = joined(lines);
  return whole.map(({ stamp, texts }, at) => {
    let text = withoutWhole(texts.join(''), wanted);
    if (at === 0) text = withoutRest(text, wanted);
    if (at === whole.length - 1) text = withoutBeginning(text, wanted);
    return `${stamp} ${text}`;
  });
}

interface JoinedLine {
  readonly stamp: string;
  readonly texts: string[];
}

/** Lines whose pieces are together again. Those of the other output may stand between two of them. */
function joined(lines: readonly string[]): readonly JoinedLine[] {
  const whole: JoinedLine[] = [];
  /** Those that may go on, by their stamps. */
  const cut = new Map<string, JoinedLine>();
  for (const line of lines) {
    const space = line.indexOf(' ');
    const [stamp, text] = [line.slice(0, Math.max(0, space)), line.slice(space + 1)];
    const known = cut.get(stamp);
    if (known === undefined) whole.push({ stamp, texts: [text] });
    else known.texts.push(text);
    const last = known ?? whole.at(-1);
    // A character is not cut, and a carriage return at the end is left out.
    if (last !== undefined && Buffer.byteLength(text) >= MAX_LINE_BYTES - 4) cut.set(stamp, last);
    else cut.delete(stamp);
  }
  return whole;
}

/** What is to be masked: values, and the lines of those that have several. The longest first: one may hold another. */
function wantedOf(secrets: Iterable<string>): readonly string[] {
  const parts = new Set<string>();
  for (const value of secrets) for (const part of [value, ...value.split(/\r?\n/)]) parts.add(part.trim());
  return [...parts].filter((part) => part.length >= MIN_LENGTH).sort((a, b) => b.length - a.length);
}

function withoutWhole(text: string, parts: readonly string[]): string {
  let masked = text;
  for (const part of parts) masked = masked.replaceAll(part, MASK);
  return masked;
}

/** Without the beginning of one at the end of the text. */
function withoutBeginning(text: string, parts: readonly string[]): string {
  for (const part of parts)
    for (let length = Math.min(part.length - 1, text.length); length >= MIN_LENGTH; length--)
      if (text.endsWith(part.slice(0, length))) return `${text.slice(0, -length)}${MASK}`;
  return text;
}

/** Without the rest of one at the beginning of the text. */
function withoutRest(text: string, parts: readonly string[]): string {
  for (const part of parts)
    for (let length = Math.min(part.length - 1, text.length); length >= MIN_LENGTH; length--)
      if (text.startsWith(part.slice(-length))) return `${MASK}${text.slice(length)}`;
  return text;
}
