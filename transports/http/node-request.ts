import type { IncomingMessage } from 'node:http';
import { PassThrough, Readable } from 'node:stream';
import { plainAddress } from '../../lib/ip-address.ts';
import { BodyError, type HttpRequest } from '../../proto/ports/http.ts';
import { HeldRequestBody } from './held-body.ts';

const nothing = new Uint8Array(0);

/** A request on node:http, read where it is: node keeps it for as long as it is referred to. */
export class NodeRequest implements HttpRequest {
  readonly #message: IncomingMessage;
  readonly #target: string;
  readonly #split: number;
  #aborter: AbortController | undefined;
  #asked = false;
  #waiting: ((error: BodyError) => void) | undefined;
  #held: HeldRequestBody | undefined;
  /** The client left before the reply was sent. */
  gone = false;
  readonly remoteAddress: string;

  /** `target`: path and query, whatever form they were sent in. */
  constructor(message: IncomingMessage, target = message.url ?? '') {
    this.#message = message;
    this.#target = target;
    this.#split = target.indexOf('?');
    this.remoteAddress = plainAddress(message.socket.remoteAddress);
  }

  get method(): string {
    return this.#message.method ?? '';
  }

  get path(): string {
    return this.#split < 0 ? this.#target : this.#target.slice(0, this.#split);
  }

  get query(): string {
    return this.#split < 0 ? '' : this.#target.slice(this.#split + 1);
  }

  header(name: string): string | undefined {
    const value = this.#message.headers[name];
    return Array.isArray(value) ? value.join(', ') : value;
  }

  get signal(): AbortSignal {
    this.#aborter ??= new AbortController();
    if (this.gone) this.#aborter.abort();
    return this.#aborter.signal;
  }

  /** Whether bytes of the body are still to come. */
  get unread(): boolean {
    return this.#hasBody && !this.#message.complete;
  }

  body(limit: number): Promise<Uint8Array> {
    if (this.#asked) return Promise.reject(new TypeError('The body of a request is read once.'));
    this.#asked = true;
    if (this.gone) return Promise.reject(new BodyError('aborted'));
    if (!this.#hasBody) return Promise.resolve(nothing);
    if (this.#declared > limit) return Promise.reject(new BodyError('too_large'));
    return this.#content().read(limit);
  }

  stream(): Readable {
    if (this.#asked) throw new TypeError('The body of a request is read once.');
    this.#asked = true;
    if (!this.#hasBody) return Readable.from([]);
    const stream = new PassThrough();
    stream.on('error', () => {});
    if (this.gone) return stream.destroy(new BodyError('aborted'));
    this.#waiting = (error) => void stream.destroy(error);
    this.#message.pipe(stream);
    stream.once('close', () => {
      this.#waiting = undefined;
      this.#message.unpipe(stream);
    });
    return stream;
  }

  /**
   * Reads on without keeping anything (whoever reads it is told `aborted`), so that a client which is still sending
   * comes to read its answer. `done` is told true when the body has ended, false when more than MAX_DISCARD_BYTES came
   * or are announced. Once the client left, `gone` is called in its place.
   */
  discard(done: (whole: boolean) => void, gone: () => void): void {
    this.#waiting?.(new BodyError('aborted'));
    // A stream that closes later would hold the message up.
    this.#message.unpipe();
    this.#content().discard(done, gone);
    this.#message.resume();
  }

  /** The client left: wakes whoever waits for the signal or for the body. */
  abort(): void {
    if (this.gone) return;
    this.gone = true;
    this.#waiting?.(new BodyError('aborted'));
    this.#held?.abort();
    this.#aborter?.abort();
  }

  get #hasBody(): boolean {
    return this.#declared > 0 || this.#message.headers['transfer-encoding'] !== undefined;
  }

  get #declared(): number {
    return Number(this.#message.headers['content-length'] ?? 0);
  }

  /** The body from here on, which flows. */
  #content(): HeldRequestBody {
    if (this.#held === undefined) {
      const held = new HeldRequestBody(this.#message, this.#declared);
      this.#held = held;
      this.#message.on('data', (chunk: Buffer) => held.take(chunk, false)).on('end', () => held.take(nothing, true));
    }
    return this.#held;
  }
}
