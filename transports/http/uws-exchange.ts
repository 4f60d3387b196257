import type { HttpResponse } from 'uWebSockets.js';
import type { HttpAnswer, HttpPushReply, HttpReply } from '../../proto/ports/http.ts';
import { dropStream, internalError, soundReply } from './reply-head.ts';
import { type PushOwner, UwsPush, writeReply } from './uws-reply.ts';
import type { UwsRequest } from './uws-request.ts';

/** A request that is answered after the library's callback: guards every write against a client that left. */
export class UwsExchange implements PushOwner {
  readonly #res: HttpResponse;
  /** Let go of once nothing of it can be asked for any more. */
  #request: UwsRequest | undefined;
  readonly #owner: PushOwner;
  #pushed: UwsPush | undefined;
  #over = false;

  /** Only inside the library's callback: takes over the abort handler and copies what is left of the request. */
  constructor(res: HttpResponse, request: UwsRequest, owner: PushOwner) {
    this.#res = res;
    this.#request = request;
    this.#owner = owner;
    res.onAborted(() => this.#abort());
    request.keep();
  }

  /** Answers with what `reply` becomes; a rejection becomes a bare 500. */
  follow(reply: PromiseLike<HttpAnswer>): void {
    reply.then(
      (value) => this.answer(value),
      () => this.answer(internalError),
    );
  }

  /** Answers once: later calls, and calls after the client left, write nothing. A bad reply becomes a bare 500. */
  answer(reply: HttpAnswer, closing = false): void {
    if (this.#over) return void dropStream(reply);
    const sound = soundReply(reply);
    const unread = this.#request?.unread;
    if (unread === undefined) {
      this.#write(sound, closing);
      return;
    }
    unread.discard(
      (whole) => this.#write(sound, closing || !whole),
      () => dropStream(sound),
    );
  }

  /** Runs `write` if the client is still there, and ends the exchange: for what is no reply, such as an upgrade. */
  settle(write: () => void): void {
    if (this.#over) return;
    this.#end();
    // Never corked: the library then looks at the new WebSocket as at a response, and cuts one in a hundred.
    write();
  }

  #write(reply: HttpAnswer, closing: boolean): void {
    if (this.#over) return;
    const head = this.#request?.method === 'HEAD';
    const isPush = 'source' in reply;
    if (isPush && !head) return void this.#push(reply);
    const whole: HttpReply = isPush ? { status: reply.status, headers: reply.headers } : reply;
    if (isPush) dropStream(reply);
    this.#res.cork(() => {
      if (writeReply(this.#res, whole, head, closing || this.#owner.closing, () => this.#end())) this.#end();
    });
  }

  get closing(): boolean {
    return this.#owner.closing;
  }

  fault(error: unknown): void {
    this.#owner.fault(error);
  }

  /** Its pushed stream is over. */
  ended(): void {
    this.#end();
  }

  #push(reply: HttpPushReply): void {
    const push = new UwsPush(this.#res, reply, this);
    this.#pushed = push;
    // The stream may live for days: what was asked does not.
    this.#request?.forget();
    try {
      push.begin();
      if (!this.#over && this.#request?.isAlone === true) {
        this.#request.release();
        push.adopt(this.#owner);
      }
    } catch (error) {
      this.fault(error);
      push.abort();
      if (push.isSilent) this.#write(internalError, false);
      else this.#res.close();
    }
  }

  #abort(): void {
    this.#request?.abort();
    this.#pushed?.abort();
    this.#end();
  }

  #end(): void {
    if (this.#over) return;
    this.#over = true;
    this.#request?.release();
    this.#owner.ended();
  }
}
