import type { ServerResponse } from 'node:http';
import type { ByteSink, HttpPushReply } from '../../proto/ports/http.ts';
import { writePushHead, writeReply } from './node-reply.ts';
import { internalError } from './reply-head.ts';

/** One pushed stream on node:http. */
export class NodePush implements ByteSink {
  readonly #response: ServerResponse;
  readonly #reply: HttpPushReply;
  readonly #isClosing: () => boolean;
  readonly #onFault: (error: unknown) => void;
  #isOver = false;

  /** `isClosing`: whether the connection ends with the stream. `onFault` is told what the source throws. */
  constructor(
    response: ServerResponse,
    reply: HttpPushReply,
    isClosing: () => boolean,
    onFault: (error: unknown) => void,
  ) {
    this.#response = response;
    this.#reply = reply;
    this.#isClosing = isClosing;
    this.#onFault = onFault;
  }

  /** Opens the source, or answers 500 when that fails. */
  begin(): void {
    const response = this.#response;
    response.on('drain', () => {
      if (!this.#isOver) this.#guard(() => this.#reply.source.drain());
    });
    response.once('close', () => this.#close());
    this.#guard(() => this.#reply.source.open(this));
  }

  /** What the source throws ends its reply, and nothing else. */
  #guard(work: () => void): void {
    try {
      work();
    } catch (error) {
      this.#onFault(error);
      if (this.#isOver) return;
      this.#close();
      if (this.#response.headersSent) this.#response.destroy();
      else writeReply(this.#response, internalError, false, this.#isClosing());
    }
  }

  write(chunk: Uint8Array): boolean {
    if (this.#isOver) return false;
    this.#head();
    if (this.#response.destroyed) return false;
    return chunk.length === 0 || this.#response.write(chunk);
  }

  end(): void {
    if (this.#isOver) return;
    this.#head();
    this.#response.end();
    this.#close();
  }

  #head(): void {
    if (!this.#response.headersSent) writePushHead(this.#response, this.#reply, this.#isClosing());
  }

  #close(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    try {
      this.#reply.source.closed();
    } catch (error) {
      this.#onFault(error);
    }
  }
}
