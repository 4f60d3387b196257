/** Sentences about values that do not fit their schemas, the same wherever they are read. */
import type { z } from 'zod';
import { type FieldError, Refusal } from './errors.ts';

const KINDS: Readonly<Record<string, string>> = {
  string: 'a string',
  number: 'a number',
  int: 'a whole number',
  boolean: 'true or false',
  array: 'a list',
  object: 'an object',
  record: 'an object',
};

const COUNTED: Readonly<Record<string, string>> = { string: 'characters', array: 'entries' };

/** What is wrong with a value, to stand after its name; undefined: as the library says it. For zod's `error`. */
export function validationMessage(issue: z.core.$ZodRawIssue): string | undefined {
  if (issue.code === 'invalid_type') {
    const kind = KINDS[issue.expected] ?? issue.expected;
    return issue.input === undefined ? `is missing: it is ${kind}` : `must be ${kind}`;
  }
  if (issue.code === 'invalid_value') {
    const values = issue.values.map((value) => (typeof value === 'string' ? value : JSON.stringify(value)));
    return values.length === 1 ? `must be ${values[0]}` : `must be one of ${values.join(', ')}`;
  }
  if (issue.code === 'unrecognized_keys') {
    const [field, are] = issue.keys.length === 1 ? ['a field', 'is'] : ['fields', 'are'];
    return `has ${field} that ${are} not known: ${issue.keys.join(', ')}`;
  }
  if (issue.code === 'invalid_key') return issue.issues[0]?.message;
  if (issue.code !== 'too_small' && issue.code !== 'too_big') return undefined;
  const [bound, most] = issue.code === 'too_small' ? [issue.minimum, 'least'] : [issue.maximum, 'most'];
  const counted = COUNTED[issue.origin];
  if (counted !== undefined) return `must have at ${most} ${bound} ${counted}`;
  return issue.inclusive === false ? undefined : `must be at ${most} ${bound}`;
}

/** What is said of a field right after its name; anything else is a sentence of its own. */
const PREDICATE = /^(?:must|is|are|has|have|holds|may|needs|cannot)\b/;

/** The sentence about the first of several wrong fields. `path` is empty for the whole of it. */
export function notValid(where: 'body' | 'query', fields: readonly FieldError[]): string {
  const what = where === 'body' ? 'request body' : 'query';
  const first = fields[0];
  if (first === undefined) return `The ${what} is not valid.`;
  const { path } = first;
  const message = /[.!?]$/.test(first.message) ? first.message : `${first.message}.`;
  if (!PREDICATE.test(message)) return `The ${what} is not valid${path === '' ? '' : `, at "${path}"`}: ${message}`;
  return `The ${what} is not valid: ${path === '' ? 'it' : `"${path}"`} ${message}`;
}

/** The refusal of one field of a body whose schema it fits. `message` is a predicate (`must be ...`) or a sentence. */
export function invalidField(path: string, message: string): Refusal {
  const fields = [{ path, message }];
  return new Refusal('invalid_request', { message: notValid('body', fields), fields });
}
