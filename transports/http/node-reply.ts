import type { ServerResponse } from 'node:http';
import type { ByteSink, HttpAnswer, HttpPushReply, HttpReply } from '../../proto/ports/http.ts';
import { internalError, isBodiless, isSent, statusLine } from './reply-head.ts';

/** The head as node takes it: name, value, name, value. `length`: content-length; undefined: the length is unknown. */
function headOf(reply: HttpAnswer, length: number | undefined, closing: boolean): string[] {
  const head: string[] = [];
  for (const [name, value] of reply.headers) {
    if (isSent(name)) head.push(name, value);
  }
  if (length !== undefined) head.push('content-length', String(length));
  if (closing) head.push('connection', 'close');
  return head;
}

function writeHead(response: ServerResponse, status: number, head: string[]): void {
  response.writeHead(status, statusLine(status).slice(4), head);
}

/** Writes a checked reply. `head`: answer to HEAD, no body. `closing`: the connection ends with it. */
export function writeReply(response: ServerResponse, reply: HttpReply, head: boolean, closing: boolean): void {
  const body = reply.body ?? '';
  const length = isBodiless(reply.status) ? undefined : Buffer.byteLength(body);
  writeHead(response, reply.status, headOf(reply, length, closing));
  if (head || length === undefined) response.end();
  else response.end(body);
}

/** The head of a pushed reply. */
export function writePushHead(response: ServerResponse, reply: HttpPushReply, closing: boolean): void {
  writeHead(response, reply.status, headOf(reply, undefined, closing));
}

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
      this.fail();
    }
  }

  fail(): void {
    if (this.#isOver) return;
    this.#close();
    if (this.#response.headersSent) this.#response.destroy();
    else writeReply(this.#response, internalError, false, this.#isClosing());
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
