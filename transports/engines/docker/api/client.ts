import type { IncomingMessage } from 'node:http';
import type { Duplex, Readable } from 'node:stream';
import { z } from 'zod';
import { jsonOf } from '../../../../lib/input.ts';
import { EngineError, type EngineErrorCode } from '../../../../proto/ports/engine.ts';
import { answerOf, cleanReason, type Query, queryText } from '../../common/calls.ts';
import { hijack, readBody, send } from './requests.ts';
import { DockerWay } from './way.ts';

/** The API versions this client speaks: `oldest` has all calls it makes, `newest` is the last it was read against. */
const apiVersions = { oldest: '1.40', newest: '1.52' } as const;

const ARCHIVE_TYPE = 'application/x-tar';

/** What Docker answers when it has made something. */
export const created = z.object({ Id: z.string() });

/** What every call takes. Times in milliseconds. */
export interface CallOptions {
  readonly query?: Query;
  /** Sent as JSON. */
  readonly body?: unknown;
  /** A tar archive, sent as it is; excludes `body`. */
  readonly archive?: Uint8Array;
  /** Most time until the head, and again for the body. Default 30,000. */
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal | undefined;
  /** Default 16 MiB. */
  readonly maxBytes?: number;
}

/** What a streaming call takes; the body may be a stream. */
export interface StreamOptions {
  readonly query?: Query;
  /** A tar archive. */
  readonly body?: Readable | Uint8Array;
  /** Sent besides the usual ones. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Most time until the head of the answer. Default 30,000. */
  readonly headTimeoutMs?: number;
  readonly signal?: AbortSignal | undefined;
}

/**
 * A small Docker Engine API client (https://docs.docker.com/engine/api/): JSON calls over kept-alive connections and
 * raw streams over connections of their own. Every method rejects with EngineError only; an answer of 400 or above is a
 * DockerReplyError.
 */
export class DockerClient {
  readonly host: string;
  readonly #way: DockerWay;
  #version: Promise<string> | undefined;
  #changes = 0;

  /** `host` as `dockerAddress` makes it. Connects on the first call. Throws EngineError `refused` for others. */
  constructor(host: string) {
    this.host = host;
    this.#way = new DockerWay(host);
  }

  /** Calls that are over and may have changed something: what was asked before the last one may be otherwise now. */
  get changes(): number {
    return this.#changes;
  }

  /** Resolves with the API version the engine answers with; rejects `unavailable` when it does not. */
  async ping(timeoutMs = 5000): Promise<string> {
    const response = await send(this.#way, {
      method: 'GET',
      path: '/_ping',
      headers: {},
      own: true,
      headTimeoutMs: timeoutMs,
    });
    await readBody(response, 64 * 1024, timeoutMs);
    const version = response.headers['api-version'];
    if (response.statusCode !== 200 || typeof version !== 'string' || !/^\d+\.\d+$/.test(version)) {
      throw new EngineError('unavailable', `What answers at ${this.host} is not a Docker Engine.`);
    }
    return version;
  }

  /** A call whose answer is JSON of the shape `schema`. An answer of another shape rejects `unavailable`. */
  async json<T>(method: string, path: string, schema: z.ZodType<T>, options: CallOptions = {}): Promise<T> {
    const body = await this.call(method, path, options);
    return answerOf(body.toString('utf8'), schema, 'The container engine', `${method} ${path}`);
  }

  /** A call whose answer is read whole and handed over as bytes (304 included). */
  async call(method: string, path: string, options: CallOptions = {}): Promise<Buffer> {
    try {
      return await this.#answered(method, path, options);
    } finally {
      if (method !== 'GET' && method !== 'HEAD') this.#changes += 1;
    }
  }

  async #answered(method: string, path: string, options: CallOptions): Promise<Buffer> {
    const { timeoutMs = 30_000, maxBytes = 16 * 1024 * 1024 } = options;
    const body =
      options.archive ?? (options.body === undefined ? undefined : Buffer.from(JSON.stringify(options.body), 'utf8'));
    const response = await send(this.#way, {
      method,
      path: await this.#path(path, options.query),
      headers: {
        ...(body === undefined
          ? {}
          : { 'content-type': options.archive === undefined ? 'application/json' : ARCHIVE_TYPE }),
        'content-length': body?.length ?? 0,
      },
      own: false,
      headTimeoutMs: timeoutMs,
      body,
      signal: options.signal,
    });
    await this.#throwOnError(response);
    return readBody(response, maxBytes, timeoutMs);
  }

  /**
   * A call whose answer is a stream, on a connection of its own. The caller ends it by destroying it or by `signal`.
   * When a body stream fails, the request is cut off unfinished and the call rejects.
   */
  async stream(method: string, path: string, options: StreamOptions = {}): Promise<IncomingMessage> {
    const response = await send(this.#way, {
      method,
      path: await this.#path(path, options.query),
      headers: {
        ...options.headers,
        ...(options.body === undefined ? {} : { 'content-type': ARCHIVE_TYPE }),
      },
      own: true,
      headTimeoutMs: options.headTimeoutMs ?? 30_000,
      body: options.body,
      signal: options.signal,
    });
    response.socket.setKeepAlive(true, 15_000);
    // Between here and its reader a cut connection must not end the process; the reader still sees the error.
    response.on('error', () => undefined);
    await this.#throwOnError(response);
    return response;
  }

  /** A POST whose connection becomes a stream both ways; the caller ends it. */
  async hijack(path: string, body: unknown, headTimeoutMs = 30_000): Promise<Duplex> {
    const hijacked = await hijack(this.#way, { path: await this.#path(path, undefined), body, headTimeoutMs });
    if ('socket' in hijacked) return hijacked.socket;
    await this.#throwOnError(hijacked.refusal);
    hijacked.refusal.destroy();
    throw new EngineError('unavailable', 'The container engine did not give its connection away.');
  }

  /** Closes the kept-alive connections. Streams are their callers'; those through SSH end with it. */
  close(): void {
    this.#way.close();
  }

  async #path(path: string, query: Query | undefined): Promise<string> {
    this.#version ??= this.ping().then(negotiate);
    const version = await this.#version.catch((error: unknown) => {
      this.#version = undefined;
      throw error;
    });
    return `/v${version}${path}${queryText(query)}`;
  }

  async #throwOnError(response: IncomingMessage): Promise<void> {
    const status = response.statusCode ?? 0;
    if (status >= 200 && status < 400) return;
    const text = (await readBody(response, 1024 * 1024, 10_000)).toString('utf8');
    const reason = cleanReason(messageOf(text));
    // The engine was replaced by one that wants other versions: ask again at the next call.
    if (status === 400 && /client version/i.test(reason)) this.#version = undefined;
    throw new DockerReplyError(status, reason);
  }
}

/** The version to speak with an engine whose own is `theirs`. Throws EngineError `unavailable` when it is too old. */
export function negotiate(theirs: string): string {
  if (compareVersions(theirs, apiVersions.oldest) < 0) {
    throw new EngineError(
      'unavailable',
      `The container engine speaks API version ${theirs}; ${apiVersions.oldest} or later is needed.`,
    );
  }
  return compareVersions(theirs, apiVersions.newest) > 0 ? apiVersions.newest : theirs;
}

function compareVersions(a: string, b: string): number {
  const [aMajor = 0, aMinor = 0] = a.split('.').map(Number);
  const [bMajor = 0, bMinor = 0] = b.split('.').map(Number);
  return aMajor - bMajor || aMinor - bMinor;
}

const errorBody = z.object({ message: z.string() });

/** Docker's error bodies are `{"message": "..."}`; a proxy in between may send anything. */
function messageOf(text: string): string {
  return errorBody.safeParse(jsonOf(text)).data?.message ?? text;
}

/** An answer of 400 or above from the Docker Engine. `reason` is Docker's own sentence, cleaned and cut. */
export class DockerReplyError extends EngineError {
  readonly status: number;
  readonly reason: string;

  constructor(status: number, reason: string) {
    super(codeOfStatus(status), reason === '' ? `The Docker Engine answered ${status}.` : reason);
    this.status = status;
    this.reason = reason;
  }
}

function codeOfStatus(status: number): EngineErrorCode {
  if (status >= 500 || status === 429) return 'unavailable';
  return status === 404 ? 'not_found' : 'refused';
}

/** What a call resolves with; undefined when Docker answers with one of `statuses`. */
export function unlessReply<T>(call: Promise<T>, ...statuses: number[]): Promise<T | undefined> {
  return call.catch((error: unknown) => {
    if (!isReply(error, ...statuses)) throw error;
    return undefined;
  });
}

/** True when `error` is a Docker reply with one of `statuses`. */
export function isReply(error: unknown, ...statuses: number[]): error is DockerReplyError {
  return error instanceof DockerReplyError && statuses.includes(error.status);
}

/** What changes and looks need of a client. */
export type Calls = Pick<DockerClient, 'call' | 'json' | 'stream'>;

/**
 * The client, which asks `fence` before each change: it throws once another node may look after the container, and the
 * change is not made. For work of many changes that lasts.
 */
export function fencedClient(client: Calls, fence: () => void): Calls {
  const ask = (method: string): void => {
    if (method !== 'GET' && method !== 'HEAD') fence();
  };
  return {
    call: async (method, ...rest) => {
      ask(method);
      return client.call(method, ...rest);
    },
    json: async (method, ...rest) => {
      ask(method);
      return client.json(method, ...rest);
    },
    stream: async (method, ...rest) => {
      ask(method);
      return client.stream(method, ...rest);
    },
  };
}
