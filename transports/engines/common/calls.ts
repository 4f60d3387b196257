/** What calls of engines' APIs have in common: queries, answers and errors. */
import { z } from 'zod';
import { errorText } from '../../../lib/errors.ts';
import { jsonOf } from '../../../lib/input.ts';
import { EngineError } from '../../../proto/ports/engine.ts';

/** Values of a query string; undefined ones are left out, a list repeats its name. */
export type Query = Readonly<Record<string, string | number | boolean | readonly string[] | undefined>>;

/** A query as it stands behind a path; empty without values. */
export function queryText(query: Query = {}): string {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value === undefined) continue;
    for (const one of typeof value === 'object' ? value : [value]) params.append(name, String(one));
  }
  const text = params.toString();
  return text === '' ? '' : `?${text}`;
}

/** What `engine` answered to `call`, in the shape of `schema`. Throws EngineError `unavailable` for anything else. */
export function answerOf<T>(text: string, schema: z.ZodType<T>, engine: string, call: string): T {
  const value = jsonOf(text);
  if (value === undefined) {
    throw new EngineError('unavailable', `${engine} answered with something that is not JSON.`);
  }
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  throw new EngineError('unavailable', `${engine} answered ${call} in an unknown shape.`, { cause: parsed.error });
}

/** The items of a list: an empty one may be `null`, or not there. */
export function listOf<T>(item: z.ZodType<T>) {
  return z
    .array(item)
    .nullish()
    .transform((items) => items ?? []);
}

/**
 * Reads a stream of JSON values, one a line (Docker's /events, /images/create), however the bytes are cut. Lines that
 * are not JSON are skipped. Throws EngineError `unavailable` when a line grows past `maxLineBytes`.
 */
export async function* jsonLines(stream: AsyncIterable<unknown>, maxLineBytes = 1024 * 1024): AsyncGenerator<unknown> {
  let rest: Buffer = Buffer.alloc(0);
  for await (const chunk of stream) {
    if (!(chunk instanceof Uint8Array)) continue;
    rest = rest.length === 0 ? Buffer.from(chunk) : Buffer.concat([rest, chunk]);
    for (let end = rest.indexOf(0x0a); end !== -1; end = rest.indexOf(0x0a)) {
      const value = jsonOf(rest.toString('utf8', 0, end));
      rest = rest.subarray(end + 1);
      if (value !== undefined) yield value;
    }
    if (rest.length > maxLineBytes) {
      throw new EngineError('unavailable', 'The container engine sent a line that is too long.');
    }
  }
  const last = jsonOf(rest.toString('utf8'));
  if (last !== undefined) yield last;
}

/** The system's error code (`ECONNREFUSED`, ...) of an unknown error, or undefined. */
export function systemCode(error: unknown): string | undefined {
  if (typeof error !== 'object' || error === null || !('code' in error)) return undefined;
  return typeof error.code === 'string' ? error.code : undefined;
}

/** An engine's text made fit for one line of a user's screen: no control characters, at most 500 characters. */
export function cleanReason(text: string): string {
  const oneLine = text.replace(/\p{Cc}+/gu, ' ').trim();
  return oneLine.length > 500 ? `${oneLine.slice(0, 499)}…` : oneLine;
}

/** Turns whatever was thrown while talking to the engine into an EngineError, keeping it as the cause. */
export function toEngineError(error: unknown): EngineError {
  if (error instanceof EngineError) return error;
  return new EngineError('unavailable', `The container engine cannot be reached: ${cleanReason(errorText(error))}.`, {
    cause: error,
  });
}
