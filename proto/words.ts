/** Sentences about values that do not fit their schemas, the same at every door. */
import type { z } from 'zod';

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

/** What is wrong with a value, to be read after its name; undefined: as the library says it. For zod's `error` of a parse. */
export function inWords(issue: z.core.$ZodRawIssue): string | undefined {
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
  if (issue.code !== 'too_small' && issue.code !== 'too_big') return undefined;
  const [bound, most] = issue.code === 'too_small' ? [issue.minimum, 'least'] : [issue.maximum, 'most'];
  const counted = COUNTED[issue.origin];
  if (counted !== undefined) return `must have at ${most} ${bound} ${counted}`;
  return issue.inclusive === false ? undefined : `must be at ${most} ${bound}`;
}
