/** What calls of engines' APIs have in common: queries and answers. */
import type { z } from 'zod';
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
