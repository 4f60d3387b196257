import { type IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { plainAddress } from '../../lib/ip-address.ts';
import type { HttpAnswer, HttpRequest } from '../../proto/ports/http.ts';
import { HeldRequestBody } from './held-body.ts';
import { EARLY_FRAME_BYTES } from './limits.ts';
import { writeReply } from './node-reply.ts';
import { dropStream } from './reply-head.ts';
import { NO_BYTES, TargetRequest } from './target-request.ts';

/** A request on node:http, read where it is: node keeps it for as long as it is referred to. */
export class NodeRequest extends TargetRequest implements HttpRequest {
  readonly content: HeldRequestBody | undefined;
  readonly #message: IncomingMessage;
  readonly #declared: number;
  #isRead = false;

  /** `target`: path and query, whatever form they were sent in. */
  constructor(message: IncomingMessage, target = message.url ?? '') {
    super(target, plainAddress(message.socket.remoteAddress));
    this.#message = message;
    this.#declared = Number(message.headers['content-length'] ?? 0);
    const hasBody = this.#declared > 0 || message.headers['transfer-encoding'] !== undefined;
    this.content = hasBody ? new HeldRequestBody(message, this.#declared) : undefined;
  }

  get method(): string {
    return this.#message.method ?? '';
  }

  header(name: string): string | undefined {
    const value = this.#message.headers[name];
    return Array.isArray(value) ? value.join(', ') : value;
  }

  /** Whether bytes of the body are still to come. */
  get unread(): boolean {
    return this.content !== undefined && !this.#message.complete;
  }

  protected read(content: HeldRequestBody, limit: number): Promise<Uint8Array> {
    const body = content.read(limit);
    // One that is refused unread is not taken from the network either.
    if (this.#declared <= limit) this.#listen(content);
    return body;
  }

  /** As that of `HeldRequestBody`. */
  discard(done: (whole: boolean) => void, gone: () => void): void {
    this.content?.discard(done, gone);
    if (this.content !== undefined) this.#listen(this.content);
  }

  /** Has the body come. */
  #listen(content: HeldRequestBody): void {
    if (this.#isRead) return;
    this.#isRead = true;
    this.#message
      .on('data', (chunk: Buffer) => content.take(chunk, false))
      .on('end', () => content.take(NO_BYTES, true));
  }
}

/**
 * An upgrade request on node:http that waits for its answer. Node hands the raw connection over with it, so this reads
 * on: that is how it hears that the client left, and why early frames are held.
 */
export class PendingUpgrade {
  readonly request: NodeRequest;
  readonly #message: IncomingMessage;
  readonly #socket: Duplex;
  #early: Buffer;
  #over = false;

  /** `head`: bytes that followed the request. `target`: its path and query. */
  constructor(message: IncomingMessage, socket: Duplex, head: Buffer, target?: string) {
    this.#message = message;
    this.#socket = socket;
    this.#early = head;
    this.request = new NodeRequest(message, target);
    socket.on('error', () => undefined);
    socket.on('data', this.#hold).once('end', this.#left).once('close', this.#left);
  }

  /** Whether the head announces a body, which an upgrade request cannot have here. */
  get hasBody(): boolean {
    const { headers } = this.#message;
    return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) !== 0;
  }

  /** Gives the connection away with the bytes that came early, unless the client left. */
  accept(take: (early: Buffer) => void): void {
    if (!this.#settle()) return;
    // Still flowing: whoever takes the connection listens before this turn of the loop ends.
    if (this.#socket.isPaused()) this.#socket.resume();
    take(this.#early);
  }

  /** Answers with a plain reply and ends the connection, unless the client left. */
  refuse(reply: HttpAnswer): void {
    if ('source' in reply) {
      dropStream(reply);
      return;
    }
    if (!this.request.gone && !this.#over) writeReply(this.response(), reply, false, true);
  }

  /** A reply on the connection, which ends with it. */
  response(): ServerResponse {
    this.#over = true;
    this.#socket.off('data', this.#hold).off('end', this.#left).off('close', this.#left).resume();
    const response = new ServerResponse(this.#message);
    response.shouldKeepAlive = false;
    response.assignSocket(this.#message.socket);
    response.once('finish', () => this.#socket.end(() => this.#socket.destroy()));
    return response;
  }

  /** Cuts the connection. */
  destroy(): void {
    this.#socket.destroy();
  }

  #settle(): boolean {
    if (this.#over || this.request.gone) return false;
    this.#over = true;
    this.#socket.off('data', this.#hold).off('end', this.#left).off('close', this.#left);
    return true;
  }

  readonly #hold = (chunk: Buffer) => {
    this.#early = Buffer.concat([this.#early, chunk]);
    if (this.#early.length > EARLY_FRAME_BYTES) this.#socket.pause();
  };

  readonly #left = () => {
    this.request.abort();
    this.#socket.destroy();
  };
}
