/** Reads a request into a call: path parameters, query and body, each through its schema. */
import type { z } from 'zod';
import type { AnyEndpoint } from '../../proto/endpoint.ts';
import { type FieldError, Refusal } from '../../proto/errors.ts';
import { BodyError, type HttpRequest } from '../../proto/ports/http.ts';
import { notValid, validationMessage } from '../../proto/validation-messages.ts';

/** Largest body of the platform's own API. */
const MAX_BODY_BYTES = 1024 * 1024;

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: false });

/** Parses the body as JSON whose strings are Unicode. Refuses `body_too_large` and `invalid_json`. */
export async function readJson(request: HttpRequest): Promise<unknown> {
  let bytes: Uint8Array;
  try {
    bytes = await request.body(MAX_BODY_BYTES);
  } catch (error) {
    if (error instanceof BodyError && error.code === 'too_large') throw new Refusal('body_too_large');
    throw error;
  }
  if (bytes.byteLength === 0) throw new Refusal('invalid_json', { message: 'The request needs a JSON body.' });
  let value: unknown;
  let text: string;
  try {
    text = decoder.decode(bytes);
    value = JSON.parse(text);
  } catch (cause) {
    throw new Refusal('invalid_json', { cause });
  }
  if (!isUnicode(text))
    throw new Refusal('invalid_json', { message: 'A string of the request body holds half of a surrogate pair.' });
  return value;
}

/** How JSON writes half of a surrogate pair; a whole one is written by two. */
const HALF_PAIR = /\\u[dD][89a-fA-F]/;
/** One escape, a whole pair, or (the group) half of one. */
const ESCAPE = /\\(?:u[dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}|(u[dD][89a-fA-F][\da-fA-F]{2})|.)/g;

/** Whether all strings of a JSON text are Unicode (RFC 8259, 8.2; RFC 7493, 2.1): others cannot be stored or sent. */
function isUnicode(text: string): boolean {
  if (!HALF_PAIR.test(text)) return true;
  for (const [, half] of text.matchAll(ESCAPE)) if (half !== undefined) return false;
  return true;
}

/** The query as a call has it: as `readQuery` reads it, and those of `lists` as the list of their values. */
export function readQueryLists(
  query: string,
  { repeats, lists }: Pick<AnyEndpoint, 'repeats' | 'lists'>,
): Record<string, string | string[]> {
  const values: Record<string, string | string[]> = readQuery(query, repeats);
  if (lists === undefined) return values;
  const given = new URLSearchParams(query);
  for (const name of lists) if (given.has(name)) values[name] = given.getAll(name);
  return values;
}

/** The query as an object: the last of repeated names counts, as in JSON; a space joins those of `repeats`. */
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
  const result = schema.safeParse(value, { error: validationMessage });
  if (result.success) return result.data;
  // An id that no id can look like names nothing: the same answer as for an unknown one.
  if (where === 'path') throw new Refusal('not_found');
  const fields: FieldError[] = result.error.issues.slice(0, 20).map((issue) => ({
    path: issue.path.map(String).join('.'),
    message: issue.message,
  }));
  throw new Refusal('invalid_request', {
    message: notValid(where, fields),
    fields,
  });
}
