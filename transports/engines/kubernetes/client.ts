import { setMaxListeners } from 'node:events';
import { Agent as HttpAgent, request as httpRequest, type IncomingMessage } from 'node:http';
import { Agent, request as httpsRequest } from 'node:https';
import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';
import { Semaphore } from '../../../lib/concurrency.ts';
import { errorText } from '../../../lib/errors.ts';
import { jsonOf, readAtMost } from '../../../lib/input.ts';
import { anySignal, backoffMs, HALF_JITTER } from '../../../lib/waiting.ts';
import { EngineError } from '../../../proto/ports/engine.ts';
import { answerOf, cleanReason, type Query, queryText, systemCode } from '../common/calls.ts';
import { Credentials, type KubeAccess } from './access.ts';
import { isReply, KubeReplyError } from './errors.ts';

/** The name under which this platform's fields are owned (server-side apply). */
const FIELD_MANAGER = 'troupe';

/** What a call takes. Times in milliseconds. */
interface KubeCall {
  readonly query?: Query;
  readonly body?: unknown;
  readonly contentType?: string;
  readonly accept?: string;
  /** Most time for all tries together, but for what it waits for others' calls. Default 30,000. */
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
}

/** The API's own form of a refusal (metav1.Status). */
export const kubeStatus = z.object({
  kind: z.literal('Status').optional(),
  code: z.number().default(0),
  reason: z.string().default(''),
  message: z.string().default(''),
  details: z.object({ retryAfterSeconds: z.number().optional() }).nullish(),
});

const MAX_BODY_BYTES = 128 * 1024 * 1024;
/** So long after it was out of reach the server may not know all roles yet: a missing right is asked for again. */
const SETTLE_MS = 30_000;
/** Between tries of a call. */
const BACKOFF = { minMs: 100, maxMs: 2000 };
/** Longest wait that a Retry-After is given. */
const LONGEST_WAIT_MS = 30_000;
const MAX_TRIES = 6;
/** Calls at a time, without streams: a server that is asked thousands of things at once answers none in time. */
const MOST_CALLS = 24;

/**
 * A small client of the Kubernetes API: every call may be repeated (reads, server-side apply, creations by name,
 * deletions), and is, when the server asks for it (429), fails (5xx), or an object changed in between (409). Follows no
 * redirect: they would carry credentials elsewhere. Rejects with EngineError; an answer of 300 or above is a
 * KubeReplyError.
 */
export class KubeClient {
  readonly #credentials: Credentials;
  readonly #streams = { tls: new Agent({ keepAlive: false }), plain: new HttpAgent({ keepAlive: false }) };
  readonly #open = new Set<IncomingMessage>();
  readonly #closing = new AbortController();
  /** When the server was last out of reach. */
  #awayAt = Number.NEGATIVE_INFINITY;
  readonly #gate = new Semaphore(MOST_CALLS);

  constructor(access: KubeAccess) {
    this.#credentials = new Credentials(access);
    // One for each call under way or waiting, and for each stream.
    setMaxListeners(0, this.#closing.signal);
  }

  get credentials(): Credentials {
    return this.#credentials;
  }

  /** A call whose answer has the shape `schema`. */
  async json<T>(method: string, path: string, schema: z.ZodType<T>, call: KubeCall = {}): Promise<T> {
    const text = await this.call(method, path, call);
    return answerOf(text, schema, 'The Kubernetes API server', `${method} ${path}`);
  }

  /** Server-side apply: makes the object, or brings our fields of it to this. */
  apply<T>(path: string, body: object, schema: z.ZodType<T>): Promise<T> {
    return this.json('PATCH', path, schema, {
      query: { fieldManager: FIELD_MANAGER, force: true },
      body,
      contentType: 'application/apply-patch+yaml',
    });
  }

  /** A call whose answer is read whole. */
  async call(method: string, path: string, call: KubeCall = {}): Promise<string> {
    let deadline = performance.now() + (call.timeoutMs ?? 30_000);
    let renewed = false;
    let refusal: KubeReplyError | undefined;
    for (let tries = 1; ; tries += 1) {
      const given = anySignal([this.#closing.signal, ...(call.signal === undefined ? [] : [call.signal])]);
      try {
        const queuedAt = performance.now();
        return await this.#gate.run(
          async () => {
            deadline += performance.now() - queuedAt;
            const timeout = AbortSignal.timeout(Math.max(1, Math.ceil(deadline - performance.now())));
            // Both end with this try.
            const signal = AbortSignal.any([timeout, given.signal]);
            const response = await this.#send(method, path, call, signal, false);
            return await readText(response);
          },
          { signal: given.signal },
        );
      } catch (error) {
        if (this.#closing.signal.aborted || call.signal?.aborted === true) throw toError(error);
        // A token that expired, or an authority that changed since.
        if (!renewed && (isReply(error, 401) || isTrustError(error))) {
          renewed = true;
          this.#credentials.forget();
          continue;
        }
        // What the server said says more than that the time was over in the middle of the next try.
        if (error instanceof KubeReplyError) refusal = error;
        else if (refusal !== undefined && performance.now() >= deadline) throw refusal;
        const wait = waitBefore(error, tries);
        // Controllers get to it in their own time.
        const mayGoOn = tries < MAX_TRIES || (error instanceof KubeReplyError && error.isTooEarly);
        if (wait === undefined || !mayGoOn || performance.now() + wait > deadline) throw toError(error);
        await delay(wait);
      } finally {
        given.release();
      }
    }
  }

  /** A call whose answer goes on, over a connection of its own. The caller ends it by destroying it or by `signal`. */
  async stream(path: string, call: KubeCall & { readonly signal: AbortSignal }): Promise<IncomingMessage> {
    for (let renewed = false; ; renewed = true) {
      const head = new AbortController();
      const given = anySignal([call.signal, head.signal, this.#closing.signal]);
      const timer = setTimeout(() => head.abort(new Error('no answer in time')), call.timeoutMs ?? 30_000);
      try {
        const response = await this.#send('GET', path, call, given.signal, true);
        this.#open.add(response);
        response.once('close', () => {
          this.#open.delete(response);
          given.release();
        });
        // Between here and its reader a cut connection must not end the process; the reader still sees the error.
        response.on('error', () => undefined);
        return response;
      } catch (error) {
        given.release();
        if (renewed || call.signal.aborted || !(isReply(error, 401) || isTrustError(error))) throw toError(error);
        this.#credentials.forget();
      } finally {
        clearTimeout(timer);
      }
    }
  }

  /** Ends all connections; what is under way rejects `unavailable`. */
  close(): void {
    this.#closing.abort(new Error('closed'));
    for (const response of this.#open) response.destroy();
    this.#credentials.close();
    this.#streams.tls.destroy();
    this.#streams.plain.destroy();
  }

  async #send(
    method: string,
    path: string,
    call: KubeCall,
    signal: AbortSignal,
    isStream: boolean,
  ): Promise<IncomingMessage> {
    signal.throwIfAborted();
    const { isTls, origin, options } = await this.#credentials.target();
    const body = call.body === undefined ? undefined : Buffer.from(JSON.stringify(call.body));
    const url = new URL(`${origin.pathname.replace(/\/$/, '')}${path}${queryText(call.query)}`, origin);
    const response = await new Promise<IncomingMessage>((resolve, reject) => {
      const sent = (isTls ? httpsRequest : httpRequest)(
        url,
        {
          ...options,
          ...(isStream ? { agent: isTls ? this.#streams.tls : this.#streams.plain } : {}),
          method,
          signal,
          headers: {
            ...options.headers,
            accept: call.accept ?? 'application/json',
            'user-agent': 'troupe',
            ...(body === undefined
              ? {}
              : { 'content-type': call.contentType ?? 'application/json', 'content-length': body.length }),
          },
        },
        resolve,
      );
      sent.on('error', (error) => {
        if (!signal.aborted) this.#awayAt = performance.now();
        reject(error);
      });
      sent.end(body);
    });
    const status = response.statusCode ?? 0;
    if (status >= 200 && status < 300) return response;
    const retryAfter = Number(response.headers['retry-after']);
    const text = await readText(response);
    const parsed = kubeStatus.safeParse(jsonOf(text) ?? { message: text.slice(0, 500) });
    const said = parsed.success ? parsed.data : { reason: '', message: '', details: undefined };
    const seconds = Number.isFinite(retryAfter) ? retryAfter : said.details?.retryAfterSeconds;
    const wait = seconds === undefined ? undefined : seconds * 1000;
    const afterTrouble = performance.now() - this.#awayAt < SETTLE_MS;
    throw new KubeReplyError(status, said.reason, said.message, wait, afterTrouble);
  }
}

/** How long to wait before another try; undefined when that would not help. */
function waitBefore(error: unknown, tries: number): number | undefined {
  const backoff = backoffMs(tries, BACKOFF, HALF_JITTER);
  if (error instanceof KubeReplyError) {
    // Not all who were told the same at the same moment.
    if (error.status === 429) return Math.min(LONGEST_WAIT_MS, (error.retryAfterMs ?? 0) + backoff * Math.random());
    if (error.status >= 500) return Math.min(LONGEST_WAIT_MS, error.retryAfterMs ?? backoff);
    if (error.isTooEarly) return backoff;
    // Changed, or made, by another call meanwhile.
    const isRace = error.status === 409 && /^(Conflict|AlreadyExists)$/.test(error.reason);
    return isRace && !error.isTerminating ? backoff : undefined;
  }
  // The server went away with a kept connection.
  if (/^(ECONNRESET|EPIPE)$/.test(systemCode(error) ?? '') && tries <= 2) return backoff;
  return undefined;
}

function isTrustError(error: unknown): boolean {
  return /CERT|SELF_SIGNED|UNABLE_TO_VERIFY|ERR_TLS/.test(systemCode(error) ?? '');
}

function toError(error: unknown): EngineError {
  if (error instanceof EngineError) return error;
  const message = `The Kubernetes API server cannot be reached: ${cleanReason(errorText(error))}.`;
  return new EngineError('unavailable', message, { cause: error });
}

/** Reads to the end. Rejects when the answer is cut short, or too large. */
async function readText(response: IncomingMessage): Promise<string> {
  const body = await readAtMost(response, MAX_BODY_BYTES);
  if (body === undefined) throw new EngineError('unavailable', 'The Kubernetes API server answered too much.');
  return body.toString('utf8');
}

/** What is at a path; undefined when there is nothing. */
export async function getIfThere<T>(client: KubeClient, path: string, schema: z.ZodType<T>): Promise<T | undefined> {
  try {
    return await client.json('GET', path, schema);
  } catch (error) {
    if (isReply(error, 404)) return undefined;
    throw error;
  }
}

/** Deletes what is at a path; one that is gone, or going already, is deleted. */
export async function deleteIfThere(client: KubeClient, path: string, body: object = {}): Promise<void> {
  try {
    await client.call('DELETE', path, { body: { kind: 'DeleteOptions', apiVersion: 'v1', ...body } });
  } catch (error) {
    if (isReply(error, 404) || (error instanceof KubeReplyError && error.status === 409)) return;
    throw error;
  }
}
