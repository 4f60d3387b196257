import type { HttpResponse } from 'uWebSockets.js';
import type { ByteSink, ByteSource, HttpPushReply } from '../../proto/http.ts';
import { writeHead } from './uws-reply.ts';

/** What a pushed stream needs of its exchange. */
export interface PushOwner {
  /** The server closes: the connection ends with the stream. */
  readonly closing: boolean;
  /** The stream has ended by itself. */
  pushed(): void;
}

/** One pushed stream on its way. There are many, most of them silent: no promise, no closure that is made before it is needed. */
export class UwsPush implements ByteSink {
  #res: HttpResponse | undefined;
  /** Until the head is written. */
  #head: HttpPushReply | undefined;
  readonly #source: ByteSource;
  readonly #owner: PushOwner;
  #isFull = false;
  #hearsOfRoom = false;

  constructor(res: HttpResponse, reply: HttpPushReply, owner: PushOwner) {
    this.#res = res;
    this.#head = reply;
    this.#source = reply.source;
    this.#owner = owner;
  }

  /** Whether another reply is still possible: nothing was written. */
  get isSilent(): boolean {
    return this.#head !== undefined;
  }

  /** Throws what the source throws. */
  begin(): void {
    this.#source.open(this);
  }

  write(chunk: Uint8Array): boolean {
    const res = this.#res;
    if (res === undefined) return false;
    if (chunk.length === 0) return !this.#isFull;
    corked = this;
    bytes = chunk;
    res.cork(writeCorked);
    if (this.#isFull && !this.#hearsOfRoom) {
      this.#hearsOfRoom = true;
      res.onWritable(() => this.#writable());
    }
    return !this.#isFull;
  }

  end(): void {
    const res = this.#res;
    if (res === undefined) return;
    this.#res = undefined;
    res.cork(() => {
      this.#writeHead(res);
      res.end('', this.#owner.closing);
    });
    this.#source.closed();
    this.#owner.pushed();
  }

  /** The client left, or is cut off. */
  abort(): void {
    if (this.#res === undefined) return;
    this.#res = undefined;
    this.#source.closed();
  }

  /** Within a cork. */
  take(chunk: Uint8Array): void {
    const res = this.#res;
    if (res === undefined) return;
    this.#writeHead(res);
    if (!res.write(chunk)) this.#isFull = true;
  }

  #writeHead(res: HttpResponse): void {
    if (this.#head === undefined) return;
    writeHead(res, this.#head, this.#owner.closing);
    this.#head = undefined;
  }

  #writable(): boolean {
    if (!this.#isFull) return true;
    this.#isFull = false;
    this.#source.drain();
    return true;
  }
}

// `cork` calls back before it returns, so one callback serves every write without a closure each.
let corked: UwsPush | undefined;
let bytes: Uint8Array = new Uint8Array(0);
const writeCorked = () => {
  const push = corked;
  corked = undefined;
  push?.take(bytes);
};
