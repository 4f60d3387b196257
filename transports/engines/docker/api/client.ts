import type { IncomingMessage, RequestOptions } from 'node:http';
import { type Duplex, pipeline, type Readable } from 'node:stream';
import { z } from 'zod';
import { systemCode } from '../../../../lib/errors.ts';
import { jsonOf, readAtMost } from '../../../../lib/input.ts';
import { EngineError, type EngineErrorCode } from '../../../../proto/ports/engine.ts';
import { answerOf, cleanReason, type Query, queryText, ReplyError, toEngineError } from '../../common/calls.ts';
import { DockerWay } from './way.ts';

/** The API versions this client speaks: `oldest` has all calls it makes, `newest` is the last it was read against. */
const apiVersions = { oldest: '1.40', newest: '1.47' } as const;

/** Most time until the head of an answer, unless told otherwise. */
const HEAD_MS = 30_000;

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

  /** `host` as `dockerAddress` makes it. Connects on the first call. Throws EngineError `refused` for others. */
  constructor(host: string) {
    this.host = host;
    this.#way = new DockerWay(host);
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
    const { timeoutMs = HEAD_MS, maxBytes = 16 * 1024 * 1024 } = options;
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
      headTimeoutMs: options.headTimeoutMs ?? HEAD_MS,
      body: options.body,
      signal: options.signal,
    });
    response.socket.setKeepAlive(true, 15_000);
    // Between here and its reader a cut connection must not end the process; the reader still sees the error.
    response.on('error', () => undefined);
    await this.#throwOnError(response);
    return response;
  }

  /**
   * A POST whose connection becomes a stream both ways (Engine API, "Hijacking"); the caller ends it. What came behind
   * the answer's head is in it.
   */
  async hijack(path: string, body: unknown, headTimeoutMs = HEAD_MS): Promise<Duplex> {
    const json = Buffer.from(JSON.stringify(body), 'utf8');
    const headers = {
      'content-type': 'application/json',
      'content-length': json.length,
      connection: 'Upgrade',
      upgrade: 'tcp',
    };
    const response = await send(this.#way, {
      method: 'POST',
      path: await this.#path(path, undefined),
      headers,
      own: true,
      headTimeoutMs,
      body: json,
    });
    if (response.statusCode === 101) return response.socket;
    await this.#throwOnError(response);
    response.destroy();
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
export class DockerReplyError extends ReplyError {
  constructor(status: number, reason: string) {
    super(codeOfStatus(status), reason === '' ? `The Docker Engine answered ${status}.` : reason, status, reason);
  }
}

function codeOfStatus(status: number): EngineErrorCode {
  if (status >= 500 || status === 429) return 'unavailable';
  return status === 404 ? 'not_found' : 'refused';
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

/** One request as it goes out. */
interface WireRequest {
  readonly method: string;
  /** Path with its query. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string | number>>;
  readonly body?: Uint8Array | Readable | undefined;
  /** A connection of its own, closed after the answer. */
  readonly own: boolean;
  readonly signal?: AbortSignal | undefined;
  /** Most time until the answer's head is there. */
  readonly headTimeoutMs: number;
}

/**
 * Sends a request and resolves with the answer once its head is there. Rejects with EngineError `unavailable`.
 * `signal` ends the answer's body too. A kept-alive connection that the engine had closed is tried again once.
 */
async function send(way: DockerWay, out: WireRequest): Promise<IncomingMessage> {
  try {
    return await attempt(way, out);
  } catch (error) {
    const stale = error instanceof StaleConnection && !isStream(out.body) && out.signal?.aborted !== true;
    if (!stale) throw toEngineError(error instanceof StaleConnection ? error.cause : error);
    return attempt(way, { ...out, own: true }).catch((again: unknown) => {
      throw toEngineError(again instanceof StaleConnection ? again.cause : again);
    });
  }
}

/** A reused connection failed before a byte of the answer came: the engine never saw the request. */
class StaleConnection extends Error {
  constructor(cause: unknown) {
    super('stale connection', { cause });
  }
}

function isStream(body: WireRequest['body']): body is Readable {
  return body !== undefined && !(body instanceof Uint8Array);
}

async function attempt(way: DockerWay, out: WireRequest): Promise<IncomingMessage> {
  const request = await way.open();
  return new Promise((resolve, reject) => {
    const options: RequestOptions = {
      method: out.method,
      path: out.path,
      headers: { host: 'docker', ...out.headers },
      signal: out.signal,
    };
    const sent = request(options, out.own);
    const timer = setTimeout(() => {
      sent.destroy(
        new EngineError('unavailable', `The container engine did not answer within ${out.headTimeoutMs} ms.`),
      );
    }, out.headTimeoutMs);
    sent.once('response', (response) => {
      clearTimeout(timer);
      resolve(response);
    });
    sent.once('upgrade', (response, socket, head) => {
      clearTimeout(timer);
      if (head.length > 0) socket.unshift(head);
      resolve(response);
    });
    // Stays attached: an abort after the answer's head makes the request emit a second error.
    sent.on('error', (error) => {
      clearTimeout(timer);
      const code = systemCode(error);
      reject(sent.reusedSocket && (code === 'ECONNRESET' || code === 'EPIPE') ? new StaleConnection(error) : error);
    });
    if (isStream(out.body)) {
      pipeline(out.body, sent, (error) => {
        if (error) {
          clearTimeout(timer);
          reject(error);
        }
      });
    } else {
      sent.end(out.body);
    }
  });
}

/** The whole body. Rejects with EngineError `unavailable` past `maxBytes`, `timeoutMs`, or when cut short. */
async function readBody(response: IncomingMessage, maxBytes: number, timeoutMs: number): Promise<Buffer> {
  const timer = setTimeout(() => {
    response.destroy(new EngineError('unavailable', `The container engine's answer took more than ${timeoutMs} ms.`));
  }, timeoutMs);
  try {
    const body = await readAtMost(response, maxBytes);
    if (body !== undefined) return body;
    throw new EngineError('unavailable', `The container engine's answer is larger than ${maxBytes} bytes.`);
  } catch (error) {
    response.destroy();
    throw toEngineError(error);
  } finally {
    clearTimeout(timer);
  }
}
