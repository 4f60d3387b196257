/**
 * One connection of Troupe's own server: reads requests one after the other, has each answered, and hands the wire on
 * when it becomes a WebSocket. What comes ahead of its turn waits, bounded, and then stays in the kernel.
 */

import { isPromise } from '../../lib/waiting.ts';
import type { HttpAnswer, HttpReply, UpgradeAnswer } from '../../proto/ports/http.ts';
import { BodyReader, ChunkError } from '../wire/h1/body.ts';
import { RequestReader } from '../wire/h1/head-reader.ts';
import type { RequestHead } from '../wire/h1/request-head.ts';
import { Inflow } from '../wire/inflow.ts';
import type { Wire, WireReader } from '../wire/wire.ts';
import { BODY_TIMEOUT_MS, HEAD_TIMEOUT_MS, LINGER_MS, METHODS, STALL_TIMEOUT_MS } from './limits.ts';
import { type ConnectionContext, Patience } from './own-context.ts';
import { type ConnectionWord, headText, OwnPush, writeWhole } from './own-reply.ts';
import { OwnRequest, type RequestSource } from './own-request.ts';
import {
  badRequest,
  closingReply,
  dropStream,
  internalError,
  isBodiless,
  refusalOf,
  soundReply,
  unknownMethod,
} from './reply-head.ts';
import { NO_BYTES } from './target-request.ts';
import { asksForWebSocket, switchOver, upgradeRefusal } from './upgrade.ts';

type RequestPhase = 'head' | 'idle' | 'exchange' | 'draining' | 'closing';

/** A connection. It reads its wire from the moment it is made. */
export class OwnConnection extends Patience implements WireReader, RequestSource {
  readonly #context: ConnectionContext<OwnConnection>;
  readonly #address: string;
  readonly #reader = new RequestReader();
  readonly #inflow: Inflow;
  #phase: RequestPhase = 'head';
  #request: OwnRequest | undefined;
  #body: BodyReader | undefined;
  #push: OwnPush | undefined;
  /** The connection ends with the reply under way. */
  #closes = false;
  /** The client does not wait for `100 Continue` any more. */
  #isInvited = false;
  #hasEnded = false;

  constructor(wire: Wire, context: ConnectionContext<OwnConnection>, address: string) {
    super(wire, context.deadlines);
    this.#context = context;
    this.#inflow = new Inflow(wire);
    this.#address = address;
    wire.reader = this;
    context.deadlines.add(this);
    this.#wait('head', HEAD_TIMEOUT_MS);
    wire.resume();
  }

  /** No further request is taken: the connection closes if it is idle, else with the answer under way. */
  drain(): void {
    if (this.#phase === 'idle' || (this.#phase === 'head' && this.#reader.isEmpty)) this.#close();
  }

  // ----------------------------------------------------------------------------------------------------- from the wire

  onData(chunk: Buffer): void {
    if (this.#phase === 'closing') return;
    // In order: what came ahead has its turn first.
    if (this.#inflow.isEmpty) this.#read(chunk);
    else this.#inflow.keep(chunk, 0);
  }

  onEnd(): void {
    this.#hasEnded = true;
    if (this.#phase === 'exchange') {
      // Whoever has sent its last byte before the answer came has left: a stream could otherwise outlive its reader for
      // long.
      this.#abandon();
      this.wire.destroy();
    } else if (this.#phase === 'closing') this.wire.destroySoon();
    else if (this.#phase !== 'draining') this.#close();
  }

  onDrain(): void {
    if (this.#phase === 'exchange') {
      if (this.#body?.isDone !== false || this.#push !== undefined) this.deadline = Number.POSITIVE_INFINITY;
      this.#push?.drain();
    } else if (this.#phase === 'draining') {
      this.#wait('idle', HEAD_TIMEOUT_MS);
      if (this.#hasEnded || (this.#context.isClosing && this.#inflow.isEmpty)) this.#close();
      else this.#goOn();
    } else if (this.#phase === 'head') {
      // The rest of a head was not read while answers waited: its time begins anew.
      this.#wait('head', HEAD_TIMEOUT_MS);
      this.#goOn();
    }
  }

  onClose(): void {
    this.#context.deadlines.remove(this);
    this.#phase = 'closing';
    this.#inflow.clear();
    this.#abandon();
    this.#context.left(this);
  }

  onDeadline(): void {
    switch (this.#phase) {
      case 'head':
        if (this.wire.needsDrain) this.stalled();
        else if (!this.#reader.isEmpty) this.#refuse(refusalOf(408));
        else this.#close();
        return;
      case 'idle':
        this.#close();
        return;
      case 'exchange':
        if (this.wire.needsDrain) this.stalled();
        else if (this.#inflow.isHeld || this.#isUninvited) this.#wait('exchange', BODY_TIMEOUT_MS);
        else this.#refuse(refusalOf(408));
        return;
      case 'draining':
      case 'closing':
        this.stalled();
    }
  }

  // ---------------------------------------------------------------------------------------------------------- requests

  /** Reads what has come; requests in it are answered one after the other, and their answers leave together. */
  #read(chunk: Buffer): void {
    this.wire.cork();
    for (let at = 0; at < chunk.length && this.#phase !== 'closing'; ) {
      if (this.#phase !== 'exchange') {
        // A client that does not read its answers gets no more of them.
        if (this.wire.needsDrain) at = this.#inflow.keep(chunk, at);
        else at = this.#readHead(chunk, at);
      } else if (this.#body?.isDone === false) at = this.#readBody(chunk, at);
      else at = this.#inflow.keep(chunk, at);
    }
    this.wire.uncork();
    if (this.#phase === 'idle' && this.wire.needsDrain) this.#wait('draining', STALL_TIMEOUT_MS);
  }

  /** Takes up what came ahead of its turn. */
  #goOn(): void {
    if ((this.#phase !== 'idle' && this.#phase !== 'head') || this.#inflow.isEmpty || this.wire.needsDrain) return;
    this.#read(this.#inflow.take());
  }

  #readHead(chunk: Buffer, at: number): number {
    const part = at === 0 ? chunk : chunk.subarray(at);
    const begin = this.#reader.beginOf(part);
    if (begin === part.length) return chunk.length;
    // The whole head has this long, however it drips.
    if (this.#phase === 'idle') this.#wait('head', HEAD_TIMEOUT_MS);
    const found = this.#reader.push(part, begin);
    if (found === undefined) return chunk.length;
    if ('refuse' in found) {
      this.#refuse(refusalOf(found.refuse.status, found.refuse.body));
      return chunk.length;
    }
    this.#begin(found.head);
    return at + found.next;
  }

  #begin(head: RequestHead): void {
    this.#phase = 'exchange';
    this.deadline = Number.POSITIVE_INFINITY;
    if (!METHODS.has(head.method) || head.target === '*') {
      this.#refuse(head.target === '*' ? badRequest : unknownMethod);
      return;
    }
    const request = new OwnRequest(head, this.#address, this);
    this.#request = request;
    this.#closes = !head.keepAlive;
    this.#isInvited = !head.expectsContinue;
    this.#body = undefined;
    if (request.content !== undefined) {
      this.#body = new BodyReader(head.framing);
      this.#wait('exchange', BODY_TIMEOUT_MS);
    }
    if (head.method === 'GET' && asksForWebSocket(request.header('upgrade'))) this.#upgrade(request);
    else this.#ask(request);
  }

  #ask(request: OwnRequest): void {
    try {
      const answer = this.#context.options.onRequest(request);
      if (!isPromise(answer)) return void this.#answer(request, answer);
      answer.then(
        (reply) => this.#answer(request, reply),
        () => this.#answer(request, internalError),
      );
    } catch {
      this.#answer(request, internalError);
    }
  }

  #readBody(chunk: Buffer, at: number): number {
    const [body, content] = [this.#body, this.#request?.content];
    if (body === undefined || content === undefined) return chunk.length;
    try {
      const next = body.read(chunk, at, (from, to) => content.take(chunk.subarray(from, to), false));
      // Taking it may have ended the exchange.
      if (body.isDone && this.#body === body) {
        if (this.#push === undefined || !this.wire.needsDrain) this.deadline = Number.POSITIVE_INFINITY;
        content.take(NO_BYTES, true);
      }
      return next;
    } catch (error) {
      if (!(error instanceof ChunkError)) throw error;
      if (this.#body === body) this.#refuse(refusalOf(400, error.message));
      return chunk.length;
    }
  }

  // ------------------------------------------------------------------------------------------- from the request's body

  pause(): void {
    this.#inflow.isHeld = true;
  }

  resume(): void {
    this.#inflow.isHeld = false;
    // The client could not send meanwhile.
    if (this.#body?.isDone === false) this.#wait('exchange', BODY_TIMEOUT_MS);
  }

  invite(): void {
    if (this.#isUninvited) {
      this.wire.write('HTTP/1.1 100 Continue\r\n\r\n');
      this.#wait('exchange', BODY_TIMEOUT_MS);
    }
    this.#isInvited = true;
  }

  /** The client waits for `100 Continue`: nothing of the body has come. */
  get #isUninvited(): boolean {
    return !this.#isInvited && this.#request?.content?.isUntouched === true;
  }

  // ----------------------------------------------------------------------------------------------------------- answers

  /** Answers once: later calls, and calls after the client left, write nothing. A bad reply becomes a bare 500. */
  #answer(request: OwnRequest, reply: HttpAnswer, closes = false): void {
    if (this.#request !== request || this.#push !== undefined) {
      dropStream(reply);
      return;
    }
    const sound = soundReply(reply);
    request.answered();
    const { unread } = request;
    if (unread === undefined) this.#write(request, sound, closes);
    // It was not invited: whether it ever comes is the client's choice, so what follows cannot be told from it.
    else if (!this.#isInvited && unread.isUntouched) this.#write(request, sound, true);
    else
      unread.discard(
        (whole) => this.#write(request, sound, closes || !whole),
        () => dropStream(sound),
      );
  }

  #write(request: OwnRequest, reply: HttpAnswer, closes: boolean): void {
    if (this.#request !== request) {
      dropStream(reply);
      return;
    }
    const { method, head } = request;
    const isPush = 'source' in reply;
    this.#closes ||= closes || this.#context.isClosing || (head.minor === 0 && isPush);
    if (!isPush) {
      writeWhole(this.wire, reply, method === 'HEAD', this.connectionWord);
      this.finished();
    } else if (method === 'HEAD' || isBodiless(reply.status)) {
      dropStream(reply);
      this.wire.write(headText(reply, 'none', this.connectionWord));
      this.finished();
    } else {
      const push = new OwnPush(reply, this);
      this.#push = push;
      push.begin();
      // What is left of the request's body may come as slowly as it likes.
      if (this.#push === push && !this.wire.needsDrain) this.deadline = Number.POSITIVE_INFINITY;
    }
  }

  /** What the head of the reply under way says of the connection. */
  get connectionWord(): ConnectionWord {
    if (this.#closes || this.#context.isClosing) return 'close';
    return this.minor === 0 ? 'keep-alive' : '';
  }

  /** Of the request under way: 0 for HTTP/1.0, which knows no chunks. */
  get minor(): 0 | 1 {
    return this.#request?.head.minor ?? 1;
  }

  /** Bytes of a pushed reply wait for the client. */
  waits(): void {
    this.#wait('exchange', STALL_TIMEOUT_MS);
  }

  /** A source threw. */
  fault(error: unknown): void {
    this.#context.options.onFault?.(error);
  }

  /** A pushed reply broke off. `isSilent`: nothing of it was written. */
  failed(isSilent: boolean): void {
    this.#push = undefined;
    // Half a reply cannot become another one: cut off, so that the client does not take it for whole.
    if (!isSilent || this.#request === undefined) return void this.wire.destroy();
    writeWhole(this.wire, internalError, false, this.connectionWord);
    this.finished();
  }

  /** The reply is over: the next request's turn. */
  finished(): void {
    this.#request = undefined;
    this.#body = undefined;
    this.#push = undefined;
    if (this.#closes || this.#context.isClosing || this.#hasEnded) {
      this.#close();
      return;
    }
    this.#inflow.isHeld = false;
    if (this.wire.needsDrain) this.#wait('draining', STALL_TIMEOUT_MS);
    else {
      this.#wait('idle', HEAD_TIMEOUT_MS);
      // Not from here: a thousand requests in one packet must not become a thousand calls deep.
      if (!this.#inflow.isEmpty) setImmediate(() => this.#goOn());
    }
  }

  /** Answers what was not understood, and closes: where the next request begins is not known. */
  #refuse(reply: HttpReply): void {
    const isHalf = this.#push !== undefined;
    this.#abandon();
    // Half a reply cannot become another one.
    if (isHalf) return void this.wire.destroy();
    writeWhole(this.wire, reply, false, 'close');
    this.#close();
  }

  /** Nobody waits for the answer under way any more. */
  #abandon(): void {
    const [request, push] = [this.#request, this.#push];
    this.#request = undefined;
    this.#push = undefined;
    request?.abort();
    push?.abort();
  }

  /** Sends what is written, then FIN; reads and drops what still comes: a reset would overtake the answer. */
  #close(): void {
    if (this.#phase === 'closing') return;
    const isIdle = this.#phase === 'idle' || (this.#phase === 'head' && this.#reader.isEmpty);
    this.#wait('closing', this.wire.needsDrain ? STALL_TIMEOUT_MS : LINGER_MS);
    this.#inflow.clear();
    if (isIdle || this.#hasEnded || this.#context.isClosing) this.wire.destroySoon();
    else {
      this.wire.resume();
      this.wire.end();
    }
  }

  #wait(phase: RequestPhase, ms: number): void {
    this.#phase = phase;
    this.grant(ms);
  }

  // -------------------------------------------------------------------------------------------------------- WebSockets

  #upgrade(request: OwnRequest): void {
    const refusal = upgradeRefusal(request);
    if (refusal !== undefined) return void this.#refuse(refusal);
    const ask = async () => this.#context.options.onUpgrade(request);
    ask()
      .then((answer) => this.#settle(request, answer))
      .catch(() => this.#answer(request, internalError, true));
  }

  #settle(request: OwnRequest, answer: UpgradeAnswer): void {
    if ('refuse' in answer) this.#answer(request, answer.refuse, true);
    else if (this.#context.isClosing) this.#answer(request, closingReply, true);
    else if (this.#request === request) {
      const early = this.#inflow.takeAll();
      this.#request = undefined;
      this.#context.deadlines.remove(this);
      this.#context.left(this);
      switchOver({ wire: this.wire, request, context: this.#context }, answer, early);
    }
  }
}
