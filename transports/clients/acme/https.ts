/**
 * The requests of the ACME client. It brings an HTTP library that retries by itself, waits as long as a server says,
 * and hides what went wrong; here each call has its own time, its own trust, a bound on what it reads, and keeps the
 * answer for whoever asks why it failed.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { type Agent, request } from 'node:https';
import acme from 'acme-client';
import { errorText } from '../../../lib/errors.ts';
import { readAtMost } from '../../../lib/input.ts';
import { CaError } from '../../../proto/ports/acme.ts';

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

function send(
  { agent, timeoutMs, signal }: CaCall,
  url: string,
  method: string,
  headers: Record<string, string>,
  body: string | undefined,
): Promise<CaAnswer> {
  return new Promise((resolve, reject) => {
    signal.throwIfAborted();
    const outgoing = request(url, { method, agent, headers: { ...headers, 'User-Agent': 'troupe' } });
    const over = () => {
      clearTimeout(timer);
      signal.removeEventListener('abort', onAbort);
    };
    const fail = (error: unknown) => {
      over();
      outgoing.destroy();
      reject(error);
    };
    const away = (cause: unknown) =>
      fail(new CaError('unavailable', `The certificate authority cannot be reached: ${textOf(cause)}`, { cause }));
    const onAbort = () => fail(signal.reason);
    const timer = setTimeout(
      () => fail(new CaError('unavailable', `The certificate authority did not answer within ${timeoutMs / 1000} s`)),
      timeoutMs,
    );
    signal.addEventListener('abort', onAbort);
    outgoing.on('error', away);
    outgoing.on('response', (incoming) => {
      readAtMost(incoming, MAX_ANSWER).then((body) => {
        if (body === undefined) return fail(new CaError('bad_answer', 'The certificate authority answers too much.'));
        over();
        resolve({ status: incoming.statusCode ?? 0, headers: incoming.headers, text: body.toString() });
      }, away);
    });
    outgoing.end(body);
  });
}

function flat(headers: CaAnswer['headers']): Record<string, string> {
  return Object.fromEntries(
    Object.entries(headers).flatMap(([name, value]) =>
      value === undefined ? [] : [[name, [value].flat().join(', ')]],
    ),
  );
}

function textOf(error: unknown): string {
  const code = error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined;
  return code ?? errorText(error);
}
