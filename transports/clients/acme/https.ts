/**
 * The requests of the ACME client. It brings an HTTP library that retries by itself, waits as long as a server says,
 * and hides what went wrong; here each call has its own time, its own trust, a bound on what it reads, and keeps the
 * answer for whoever asks why it failed.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { type Agent, request } from 'node:https';
import acme from 'acme-client';
import { z } from 'zod';
import { errorText, systemCode } from '../../../lib/errors.ts';
import { jsonOf, readAtMost } from '../../../lib/input.ts';
import { anySignal } from '../../../lib/waiting.ts';
import { CaError, type CaErrorCode } from '../../../proto/ports/acme.ts';

/** The last answer of a call. */
export interface CaAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly text: string;
}

/** One call of the library, which may be several requests. */
export interface CaCall {
  readonly agent: Agent;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
  last: CaAnswer | undefined;
}

/** More than any directory, order or chain. */
const MAX_ANSWER = 256 * 1024;

const calls = new AsyncLocalStorage<CaCall>();

acme.axios.defaults.adapter = async (config) => {
  const call = calls.getStore();
  if (call === undefined) throw new CaError('bad_answer', 'A request outside of a call.');
  const { url = '', method = 'get', data } = config;
  const headers: Record<string, string> = {};
  for (const [name, value] of Object.entries(config.headers)) {
    if (typeof value === 'string') headers[name] = value;
  }
  // RFC 8555, section 6.1: always; a proxy in the library's way is not followed either.
  if (!url.startsWith('https://')) throw new CaError('bad_answer', 'The authority names an address without https.');
  const answer = await send(call, url, method.toUpperCase(), headers, typeof data === 'string' ? data : undefined);
  call.last = answer;
  return { data: answer.text, status: answer.status, statusText: '', headers: { ...flat(answer.headers) }, config };
};
// Retries are our own schedule's, and the library's wait could be hours.
Object.assign(acme.axios.defaults, { acmeSettings: { retryMaxAttempts: 0, retryDefaultDelay: 1 } });

/** Runs calls of the library as one call. */
export function during<T>(call: CaCall, work: () => Promise<T>): Promise<T> {
  return calls.run(call, work);
}

async function send(
  { agent, timeoutMs, signal }: CaCall,
  url: string,
  method: string,
  headers: Record<string, string>,
  body: string | undefined,
): Promise<CaAnswer> {
  const timeout = AbortSignal.timeout(timeoutMs);
  const given = anySignal([signal, timeout]);
  try {
    given.signal.throwIfAborted();
    const sent = { ...headers, 'User-Agent': 'troupe' };
    const outgoing = request(url, { method, agent, headers: sent, signal: given.signal });
    // After the answer's head, too: the answer itself tells of what went wrong then.
    outgoing.on('error', () => {}).end(body);
    const [incoming]: IncomingMessage[] = await once(outgoing, 'response');
    const text = incoming && (await readAtMost(incoming, MAX_ANSWER))?.toString();
    if (incoming === undefined || text === undefined)
      throw new CaError('bad_answer', 'The certificate authority answers too much.');
    return { status: incoming.statusCode ?? 0, headers: incoming.headers, text };
  } catch (cause) {
    signal.throwIfAborted();
    if (cause instanceof CaError) throw cause;
    const what = timeout.aborted
      ? `did not answer within ${timeoutMs / 1000} s`
      : `cannot be reached: ${systemCode(cause) ?? errorText(cause)}`;
    throw new CaError('unavailable', `The certificate authority ${what}`, { cause });
  } finally {
    given.release();
  }
}

function flat(headers: CaAnswer['headers']): Record<string, string> {
  return Object.fromEntries(
    Object.entries(headers).flatMap(([name, value]) =>
      value === undefined ? [] : [[name, [value].flat().join(', ')]],
    ),
  );
}

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
