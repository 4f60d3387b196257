/** What an authority's answers mean: problem documents (RFC 8555, 6.7; RFC 9457) and Retry-After (RFC 9110, 10.2.3). */

import { z } from 'zod';
import { jsonOf } from '../../../lib/input.ts';
import { CaError, type CaErrorCode } from '../../../proto/ports/acme.ts';
import type { CaAnswer } from './https.ts';

const PREFIX = 'urn:ietf:params:acme:error:';
/** Words of others end up in front of people and in the database. */
const MAX_WORDS = 500;
/** Whoever says longer means "not any more", and is asked again all the same. */
const MAX_WAIT_MS = 7 * 86_400_000;

const problemSchema = z.object({ type: z.string().optional(), detail: z.string().optional() });

/** A problem document. */
type AcmeProblem = z.output<typeof problemSchema>;

/** Reads one out of anything; undefined when it is none. */
export function problemOf(value: unknown): AcmeProblem | undefined {
  const parsed = problemSchema.safeParse(value);
  return parsed.success && (parsed.data.type ?? parsed.data.detail) !== undefined ? parsed.data : undefined;
}

/** The error of an answer that is not what was asked for. `cause` is what the library threw. */
export function errorOf(answer: CaAnswer, now: number, isAtOrder: boolean, cause: unknown): CaError {
  const problem = problemOf(jsonOf(answer.text));
  const retryAfterMs = retryAfter(answer.headers['retry-after'], now);
  const words = problem?.detail ?? `The certificate authority answered ${answer.status}`;
  const code = codeOf(problem?.type, answer.status);
  return caError(code, words, problem?.type, {
    cause,
    isAtOrder,
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
  });
}

/** An error in the authority's words, made safe to show. */
export function caError(
  code: CaErrorCode,
  words: string,
  type: string | undefined,
  more: { cause?: unknown; isAtOrder?: boolean; retryAfterMs?: number } = {},
): CaError {
  const clean = words.replace(/[\p{Cc}\p{Cf}]+/gu, ' ').slice(0, MAX_WORDS);
  return new CaError(code, clean, { ...more, problem: type?.replace(PREFIX, '').slice(0, 100) });
}

function codeOf(type: string | undefined, status: number): CaErrorCode {
  switch (type?.replace(PREFIX, '')) {
    case 'accountDoesNotExist':
    // Of a challenge it would come inside of the order: as an answer it is the account that is not let in.
    case 'unauthorized':
      return 'no_account';
    case 'rateLimited':
      return 'rate_limited';
    case 'badNonce':
    case 'serverInternal':
      return 'unavailable';
    case 'orderNotReady':
      return 'no_order';
    default:
      if (status === 429) return 'rate_limited';
      if (status === 404 || status === 410) return 'no_order';
      if (status >= 500) return 'unavailable';
      return type === undefined ? 'bad_answer' : 'refused';
  }
}

/** Milliseconds to wait; undefined when it does not say, or says what is no time. */
export function retryAfter(value: string | string[] | undefined, now: number): number | undefined {
  if (typeof value !== 'string') return undefined;
  const ms = /^[0-9]{1,9}$/.test(value) ? Number(value) * 1000 : Date.parse(value) - now;
  return Number.isNaN(ms) || ms < 0 ? undefined : Math.min(ms, MAX_WAIT_MS);
}
