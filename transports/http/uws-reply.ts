import type { HttpResponse } from 'uWebSockets.js';
import type { HttpAnswer, HttpReply, HttpStreamReply } from '../../proto/ports/http.ts';
import { isBodiless, isSent, statusLine } from './reply-head.ts';

/** Bodies up to this many bytes are handed over at once; the library buffers what the client does not take. */
const WHOLE_BYTES = 64 * 1024;

/** Writes status and headers. */
export function writeHead(res: HttpResponse, reply: HttpAnswer, closing: boolean): void {
  if (reply.status !== 200) res.writeStatus(statusLine(reply.status));
  for (const [name, value] of reply.headers) {
    if (isSent(name)) res.writeHeader(name, value);
  }
  if (closing) res.writeHeader('connection', 'close');
}

function byteLength(body: string | Uint8Array): number {
  return typeof body === 'string' ? Buffer.byteLength(body) : body.byteLength;
}

/**
 * Writes a checked reply, inside the library's callback or a cork. `head`: answer to HEAD, no body. `closing`: the
 * connection ends with it. Returns true when the library has taken everything; else `done` is called when it has,
 * unless the client leaves.
 */
export function writeReply(
  res: HttpResponse,
  reply: HttpReply,
  head: boolean,
  closing: boolean,
  done?: () => void,
): boolean {
  const body = reply.body ?? '';
  if (head || isBodiless(reply.status)) {
    writeHead(res, reply, closing);
    if (!isBodiless(reply.status)) res.writeHeader('content-length', String(byteLength(body)));
    // With a length of its own as argument the library waits for that many bytes and never ends the reply.
    res.endWithoutBody();
    return true;
  }
  // `end` itself writes `connection: close`.
  writeHead(res, reply, false);
  if (done !== undefined && body.length > WHOLE_BYTES && !closing) {
    return writeSlowly(res, typeof body === 'string' ? Buffer.from(body) : body, done);
  }
  res.end(body, closing);
  return true;
}

/** Hands over a large body as fast as the client takes it, so that a slow one costs no copy of it in the library. */
function writeSlowly(res: HttpResponse, body: Uint8Array, done: () => void): boolean {
  const [, whole] = res.tryEnd(body, body.byteLength);
  if (whole) return true;
  res.onWritable((offset) => {
    const [ok, ended] = res.tryEnd(body.subarray(offset), body.byteLength);
    if (ended) done();
    return ok;
  });
  return false;
}

/** One stream reply on its way. */
export class UwsStream {
  readonly #res: HttpResponse;
  readonly #reply: HttpStreamReply;
  readonly #iterator: AsyncIterator<string | Uint8Array>;
  #gone = false;
  #begun = false;
  #wake: (() => void) | undefined;

  constructor(res: HttpResponse, reply: HttpStreamReply) {
    this.#res = res;
    this.#reply = reply;
    this.#iterator = reply.stream[Symbol.asyncIterator]();
  }

  /**
   * Sends chunk after chunk until the stream ends or the client leaves. The head goes out with the first chunk: the
   * library has no way to send it alone. Rejects with what the stream threw: `false` in `headSent` says that another
   * reply is still possible.
   */
  async send(closing: () => boolean): Promise<void> {
    for (;;) {
      const next = await this.#iterator.next();
      if (this.#gone) return;
      if (next.done) {
        this.#res.cork(() => {
          if (!this.#begun) writeHead(this.#res, this.#reply, closing());
          this.#begun = true;
          this.#res.end('', closing());
        });
        return;
      }
      if (next.value.length === 0) continue;
      if (!this.#write(next.value, closing)) await this.#writable();
      if (this.#gone) return;
    }
  }

  get headSent(): boolean {
    return this.#begun;
  }

  /** The client left: stops waiting and returns the iterator, once. */
  abort(): void {
    if (this.#gone) return;
    this.#gone = true;
    this.#wake?.();
    // A generator that is still waiting inside `next` runs its `finally` when that settles.
    Promise.resolve(this.#iterator.return?.()).catch(() => undefined);
  }

  #write(chunk: string | Uint8Array, closing: () => boolean): boolean {
    let ok = true;
    this.#res.cork(() => {
      if (!this.#begun) writeHead(this.#res, this.#reply, closing());
      this.#begun = true;
      ok = this.#res.write(chunk);
    });
    return ok;
  }

  #writable(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve;
      this.#res.onWritable(() => {
        resolve();
        return true;
      });
    });
  }
}
