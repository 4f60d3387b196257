import type { ServerResponse } from 'node:http';
import type { ByteSink, HttpPushReply } from '../../proto/http.ts';
import { writeReply, writeStreamHead } from './node-reply.ts';
import { internalError } from './reply-head.ts';

/** One pushed stream on node:http. */
export class NodePush implements ByteSink {
  readonly #response: ServerResponse;
  readonly #reply: HttpPushReply;
  readonly #isClosing: () => boolean;
  #isOver = false;

  /** `isClosing`: whether the connection ends with the stream. */
  constructor(response: ServerResponse, reply: HttpPushReply, isClosing: () => boolean) {
    this.#response = response;
    this.#reply = reply;
    this.#isClosing = isClosing;
  }

  /** Opens the source, or answers 500 when that fails. */
  begin(): void {
    const response = this.#response;
    response.on('drain', () => {
      if (!this.#isOver) this.#reply.source.drain();
    });
    response.once('close', () => this.#close());
    try {
      this.#reply.source.open(this);
    } catch {
      this.#close();
      if (response.headersSent) response.destroy();
      else writeReply(response, internalError, false, this.#isClosing());
    }
  }

  write(chunk: Uint8Array): boolean {
    if (this.#isOver) return false;
    this.#head();
    return chunk.length === 0 || this.#response.write(chunk);
  }

  end(): void {
    if (this.#isOver) return;
    this.#head();
    this.#response.end();
    this.#close();
  }

  #head(): void {
    if (!this.#response.headersSent) writeStreamHead(this.#response, this.#reply, this.#isClosing());
  }

  #close(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#reply.source.closed();
  }
}
