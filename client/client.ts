/** Calls of endpoints by name, and what is followed over sockets. */
import { errorOf, TroupeError } from './errors.ts';
import { type CommandRunOptions, runCommand } from './follow/command.ts';
import { followContainers } from './follow/containers.ts';
import type { ClientCore, RawAnswer } from './follow/core.ts';
import { followLogs, type LogLine, type LogReadOptions, readLog } from './follow/logs.ts';
import { followMachines, followMetrics } from './follow/metrics.ts';
import { followNotifications } from './follow/notifications.ts';
import { followTerminal } from './follow/terminal.ts';
import { ENDPOINTS, KEYED } from './generated/endpoints.ts';
import { addressAt, fill } from './path.ts';
import { retryPause } from './pause.ts';
import { Reconnecting, type StreamRules } from './socket.ts';
import type { ClientTransport, TransportAnswer } from './transport.ts';
import type { CallArguments, CallControl, CallReply, WrittenName } from './types.ts';

const TIMEOUT_MS = 30_000;
/** Attempts of a request that may be sent again. */
const ATTEMPTS = 3;
const BETWEEN_ATTEMPTS = { minMs: 500, maxMs: 5000 };
/** A longer Retry-After is the caller's to decide about, seconds. */
const LONGEST_WAIT = 10;
/** Answers after which the same request may succeed. */
const PASSING = new Set([502, 503, 504]);
/** The limit on changes: nothing was done, whatever the request. How long a call waits for it in all, ms. */
const LIMITED = 'too_many_changes';
const LIMIT_WAIT_MS = 60_000;
const SHORTEST_LIMIT_WAIT_MS = 500;
/** The first attempt still runs: its answer is worth the wait, ms. */
const IN_USE = 'idempotency_key_in_use';
const LONGEST_RUN_MS = 60_000;

/** That a call waits because of the limit on changes. */
export interface LimitWait {
  /** How long it waits now, ms. */
  readonly waitMs: number;
  /** How long it has waited before, ms. */
  readonly waitedMs: number;
  /** What the platform said. */
  readonly error: TroupeError;
}

/** What a client is made with. */
export interface ClientOptions {
  /** The platform, such as `https://cloud.example.com`. In a browser: the page's own origin unless given. */
  readonly url: string;
  /** Sent as a bearer. Without it a browser's cookie counts. A function is asked for each request. */
  readonly token?: string | (() => string | undefined) | undefined;
  readonly transport: ClientTransport;
  /** Sent with every request. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Of each attempt, ms; 30 s unless given. */
  readonly timeoutMs?: number;
  /** How long a call waits in all for the limit on changes, ms; a minute unless given, 0: not at all. */
  readonly limitWaitMs?: number;
  /** Called before each such wait. */
  readonly onLimitWait?: ((wait: LimitWait) => void) | undefined;
}

/** How any request is made. */
interface RequestControl extends CallControl {
  readonly headers?: Readonly<Record<string, string>>;
}

/** Bytes that are sent, and further headers of the request. */
interface Transfer extends RequestControl {
  readonly body?: Uint8Array<ArrayBuffer>;
}

interface SentContent {
  readonly body: string | Uint8Array<ArrayBuffer> | undefined;
  readonly headers: Readonly<Record<string, string>>;
  /** Whether it may be sent again: it changes nothing, or its key sees to it that it is done once. */
  readonly isRepeatable: boolean;
}

/** A client of one platform. */
export class TroupeClient implements ClientCore {
  readonly #options: ClientOptions;
  readonly #streams = new Set<Reconnecting>();

  /** What is followed until it is closed. Each goes on by itself after a lost connection. */
  readonly follow = {
    logs: (options: Parameters<typeof followLogs>[1]) => followLogs(this, options),
    terminal: (options: Parameters<typeof followTerminal>[1]) => followTerminal(this, options),
    containers: (options: Parameters<typeof followContainers>[1]) => followContainers(this, options),
    notifications: (options: Parameters<typeof followNotifications>[1]) => followNotifications(this, options),
    metrics: (options: Parameters<typeof followMetrics>[1]) => followMetrics(this, options),
    command: (options: CommandRunOptions) => runCommand(this, options),
    machines: (options: Parameters<typeof followMachines>[1]) => followMachines(this, options),
  };

  constructor(options: ClientOptions) {
    this.#options = options;
  }

  /**
   * Calls an endpoint. When the platform is not reachable or busy, it is tried again if that makes nothing twice: a
   * GET, and what takes an Idempotency-Key, which each such call has. Past the limit on changes every call waits as
   * long as the platform asks, and is sent again. Rejects with TroupeError.
   */
  async call<N extends WrittenName>(name: N, ...[input, options]: CallArguments<N>): Promise<CallReply<N>> {
    const [method = '', path = ''] = ENDPOINTS[name].split(' ');
    const { params, query, body } = sections(input);
    const isKeyed = KEYED.has(name);
    const control = isKeyed ? { idempotencyKey: newKey(), ...options } : options;
    const answer = await this.#json(method, fill(path, params, query), body, control, isKeyed || method === 'GET');
    const { body: text, requestId, status } = answer;
    try {
      // What the server sends is what the endpoint's schema says: the types are made of it.
      const reply: CallReply<N> = JSON.parse(text === '' ? 'null' : text) ?? undefined;
      return reply;
    } catch (cause) {
      const said = 'The answer is not JSON: this is no Troupe, or something is in between.';
      throw new TroupeError('unreadable', said, { cause, requestId, status });
    }
  }

  /** The lines that there are of a log, of a container in any state. Rejects with TroupeError. */
  readLog(options: LogReadOptions, control?: CallControl): Promise<LogLine[]> {
    return readLog(this, options, control);
  }

  /**
   * Sends any request to a path of the platform; only a GET is tried again, but for the limit on changes. Rejects with
   * TroupeError, also for an answer that is no success, and with `elsewhere` for a path that leads to another origin.
   */
  request(method: string, path: string, body?: unknown, options: RequestControl = {}): Promise<RawAnswer> {
    return this.#json(method, path, body, options, method === 'GET');
  }

  async #json(
    method: string,
    path: string,
    body: unknown,
    options: RequestControl = {},
    isRepeatable: boolean,
  ): Promise<RawAnswer> {
    const { idempotencyKey } = options;
    const headers = {
      // The networking API refuses in plain text unless it is asked.
      accept: 'application/json',
      ...options.headers,
      ...(body === undefined ? undefined : { 'content-type': 'application/json' }),
      ...(idempotencyKey === undefined ? undefined : { 'idempotency-key': idempotencyKey }),
    };
    const sent = { body: body === undefined ? undefined : JSON.stringify(body), headers, isRepeatable };
    const answer = await this.#repeated(method, path, sent, options);
    return { status: answer.status, body: answer.body, requestId: answer.header('x-request-id') };
  }

  /** The same with bytes both ways, for files: `headers` may name a range. */
  transfer(method: string, path: string, options: Transfer = {}): Promise<TransportAnswer> {
    const { body, headers = {} } = options;
    return this.#repeated(method, path, { body, headers, isRepeatable: method === 'GET' }, options);
  }

  async #repeated(method: string, path: string, sent: SentContent, options: CallControl): Promise<TransportAnswer> {
    const began = Date.now();
    let waitedMs = 0;
    for (let attempt = 1; ; ) {
      try {
        return await this.#attempt(method, path, sent, options);
      } catch (error) {
        if (!(error instanceof TroupeError)) throw error;
        const waitMs = this.#limitWait(error, waitedMs);
        if (waitMs !== undefined) {
          await pause(waitMs, options.signal);
          waitedMs += waitMs;
          continue;
        }
        if (!sent.isRepeatable) throw error;
        const runs = error.code === IN_USE && Date.now() - began < LONGEST_RUN_MS;
        const passes = PASSING.has(error.status) || error.code === 'unreachable' || error.code === 'timeout';
        if (!runs && (attempt === ATTEMPTS || !passes)) throw error;
        if ((error.retryAfter ?? 0) > LONGEST_WAIT) throw error;
        if (!runs) attempt++;
        await pause(
          Math.max(retryPause(Math.max(0, attempt - 2), BETWEEN_ATTEMPTS), (error.retryAfter ?? 0) * 1000),
          options.signal,
        );
      }
    }
  }

  /** How long to wait for the limit on changes now, ms; undefined if the error is another, or it took too long. */
  #limitWait(error: TroupeError, waitedMs: number): number | undefined {
    const { limitWaitMs = LIMIT_WAIT_MS, onLimitWait } = this.#options;
    if (error.code !== LIMITED || error.retryAfter === undefined) return undefined;
    // Calls that were refused together should not come back together.
    const waitMs = Math.max(SHORTEST_LIMIT_WAIT_MS, error.retryAfter * 1000) * (1 + Math.random() / 4);
    if (waitedMs + waitMs > limitWaitMs) return undefined;
    onLimitWait?.({ waitMs, waitedMs, error });
    return waitMs;
  }

  /** Opens a stream that connects again by itself. For the functions of `follow`. */
  stream(rules: StreamRules): Reconnecting {
    const { transport, url } = this.#options;
    const stream = new Reconnecting(rules, (path, listener) => {
      const address = addressAt(url, path);
      address.protocol = address.protocol.replace('http', 'ws');
      const headers = this.#headers();
      if (!transport.socketHeaders && headers.authorization !== undefined)
        address.searchParams.set('token', headers.authorization.slice('Bearer '.length));
      return transport.connect(address.href, headers, listener);
    });
    this.#streams.add(stream);
    void stream.done.then(() => this.#streams.delete(stream));
    return stream;
  }

  /** Ends the pauses of all lost streams: for a browser's `online` and `visibilitychange`. */
  wake(): void {
    for (const stream of this.#streams) stream.wake();
  }

  /** Closes all streams. */
  close(): void {
    for (const stream of this.#streams) stream.close();
  }

  #headers(): Record<string, string> {
    const { token, headers } = this.#options;
    const bearer = typeof token === 'function' ? token() : token;
    return { ...headers, ...(bearer === undefined ? undefined : { authorization: `Bearer ${bearer}` }) };
  }

  async #attempt(method: string, path: string, sent: SentContent, options: CallControl): Promise<TransportAnswer> {
    const { transport, url, timeoutMs = TIMEOUT_MS } = this.#options;
    const { signal } = options;
    const limit = new AbortController();
    const stop = () => limit.abort(new TroupeError('cancelled', 'The call was cancelled.', { cause: signal?.reason }));
    if (signal?.aborted) stop();
    signal?.addEventListener('abort', stop);
    const ms = options.timeoutMs ?? timeoutMs;
    const timer = setTimeout(() => {
      limit.abort(new TroupeError('timeout', `The platform did not answer within ${ms / 1000} s.`));
    }, ms);
    try {
      limit.signal.throwIfAborted();
      const { href } = addressAt(url, path);
      const headers = { ...sent.headers, ...this.#headers() };
      const request = { method, url: href, headers, body: sent.body, signal: limit.signal };
      return accepted(await transport.send(request));
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener('abort', stop);
    }
  }
}

/** A key that nobody else has: 128 random bits, also where a page did not come by https. */
function newKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}

function accepted(answer: TransportAnswer): TransportAnswer {
  if (answer.status < 200 || answer.status > 299)
    throw errorOf(answer.status, answer.body, (name) => answer.header(name));
  return answer;
}

type Fields = Readonly<Record<string, unknown>>;
interface Sections {
  readonly params?: Fields;
  readonly query?: Fields;
  readonly body?: unknown;
  /** Of a call that does not compile. */
  readonly useInstead?: string;
}

function sections(input: Sections | undefined): Sections {
  return input ?? {};
}

function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    // The next attempt says that it was cancelled.
    signal?.addEventListener('abort', end);
    if (signal?.aborted) end();
  });
}
