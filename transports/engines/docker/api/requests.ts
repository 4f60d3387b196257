import type { IncomingMessage, RequestOptions } from 'node:http';
import { type Duplex, pipeline, type Readable } from 'node:stream';
import { readAtMost } from '../../../../lib/input.ts';
import { EngineError } from '../../../../proto/ports/engine.ts';
import { systemCode, toEngineError } from '../../common/calls.ts';
import type { DockerWay } from './way.ts';

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
export async function send(way: DockerWay, out: WireRequest): Promise<IncomingMessage> {
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
export async function readBody(response: IncomingMessage, maxBytes: number, timeoutMs: number): Promise<Buffer> {
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

/** One request that asks for its connection to become a stream (Engine API, "Hijacking"). */
interface HijackRequest {
  /** Path with its query. */
  readonly path: string;
  /** Sent as JSON. */
  readonly body: unknown;
  readonly headTimeoutMs: number;
}

/** The connection with what came behind the answer's head, or the answer when Docker refused. */
type Hijacked = { readonly socket: Duplex } | { readonly refusal: IncomingMessage };

/** Sends it on a connection of its own. Rejects EngineError `unavailable`; the socket comes without listeners. */
export async function hijack(way: DockerWay, out: HijackRequest): Promise<Hijacked> {
  const request = await way.open();
  return new Promise((resolve, reject) => {
    const body = Buffer.from(JSON.stringify(out.body), 'utf8');
    const headers = {
      host: 'docker',
      'content-type': 'application/json',
      'content-length': body.length,
      connection: 'Upgrade',
      upgrade: 'tcp',
    };
    const sent = request({ method: 'POST', path: out.path, headers }, true);
    const fail = (error: unknown): void => {
      clearTimeout(timer);
      sent.destroy();
      reject(toEngineError(error));
    };
    const timer = setTimeout(() => {
      fail(new EngineError('unavailable', `The container engine did not answer within ${out.headTimeoutMs} ms.`));
    }, out.headTimeoutMs);
    // Stays attached: destroying the request makes it emit an error.
    sent.on('error', fail);
    sent.once('upgrade', (_response, socket, head) => {
      clearTimeout(timer);
      if (head.length > 0) socket.unshift(head);
      resolve({ socket });
    });
    sent.once('response', (refusal) => {
      clearTimeout(timer);
      resolve({ refusal });
    });
    sent.end(body);
  });
}
