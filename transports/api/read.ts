/** Reads a request into a call: path parameters, query and body, each through its schema. */
import type { z } from 'zod';
import { type FieldError, Refusal } from '../../proto/errors.ts';
import { BodyError, type HttpRequest } from '../../proto/http.ts';
import { inWords } from '../../proto/words.ts';

/** Largest body of the platform's own API (design.md, section 9). */
export const MAX_BODY_BYTES = 1024 * 1024;

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: false });

/** Parses the body as JSON. Refuses `body_too_large` and `invalid_json`. */
export async function readJson(request: HttpRequest): Promise<unknown> {
  let bytes: Uint8Array;
  try {
    bytes = await request.body(MAX_BODY_BYTES);
  } catch (error) {
    if (error instanceof BodyError && error.code === 'too_large') throw new Refusal('body_too_large');
    throw error;
  }
  if (bytes.byteLength === 0) throw new Refusal('invalid_json', { message: 'The request needs a JSON body.' });
  try {
    const value: unknown = JSON.parse(decoder.decode(bytes));
    return value;
  } catch (cause) {
    throw new Refusal('invalid_json', { cause });
  }
}

/** The query as an object: the last of repeated names counts, as it does in JSON; those of `repeats` are joined by a space. */
export function readQuery(query: string, repeats: readonly string[] = []): Record<string, string> {
  const values: Record<string, string> = {};
  if (query === '') return values;
  for (const [name, given] of new URLSearchParams(query)) {
    const value = repeats.includes(name) && Object.hasOwn(values, name) ? `${values[name]} ${given}` : given;
    Object.defineProperty(values, name, { value, enumerable: true, configurable: true, writable: true });
  }
  return values;
}

/** Puts `value` through `schema`. Refuses `invalid_request` with the fields; an unknown path parameter is a 404. */
export function check<S extends z.ZodType>(schema: S, value: unknown, where: 'path' | 'query' | 'body'): z.output<S> {
  const result = schema.safeParse(value, { error: inWords });
  if (result.success) return result.data;
  // An id that no id can look like names nothing: the same answer as for an unknown one.
  if (where === 'path') throw new Refusal('not_found');
  const fields: FieldError[] = result.error.issues.slice(0, 20).map((issue) => ({
    path: issue.path.map(String).join('.'),
    message: issue.message,
  }));
  const first = fields[0];
  const named = first === undefined ? '' : `: ${first.path === '' ? 'it' : first.path} ${first.message}`;
  throw new Refusal('invalid_request', {
    message: `The ${where === 'body' ? 'request body' : 'query'} is not valid${named}`,
    fields,
  });
}
