/**
 * One connection of Troupe's own server: reads requests one after the other with the reader that the gateway has (transports/h1), has each
 * answered, and hands the connection on when it becomes a WebSocket. What comes ahead of its turn waits, bounded, and then stays in the kernel.
 */
import type { HttpAnswer, HttpReply, HttpServerOptions, SocketHandlers, UpgradeAnswer } from '../../proto/http.ts';
import { Ahead } from '../h1/ahead.ts';
import { BodyReader } from '../h1/body.ts';
import { ChunkError } from '../h1/chunked.ts';
import type { Deadlines, Timed } from '../h1/deadlines.ts';
import type { RequestHead } from '../h1/request-head.ts';
import { RequestReader } from '../h1/request-reader.ts';
import type { Wire, WireReader } from '../tcp/wire.ts';
import type { WireSocket } from '../ws/wire-socket.ts';
import { isPromise } from './is-promise.ts';
import { BODY_TIMEOUT_MS, HEAD_TIMEOUT_MS, LINGER_MS, METHODS, STALL_TIMEOUT_MS } from './limits.ts';
import { type ConnectionWord, headText, type LongReply, OwnPush, OwnStream, writeWhole } from './own-reply.ts';
import { OwnRequest, type RequestSource } from './own-request.ts';
import { dropStream, soundReply } from './reply-check.ts';
import { badRequest, closingReply, internalError, isBodiless, refusalOf, unknownMethod } from './reply-head.ts';
import { asksForWebSocket, switchText, upgradeProblem } from './upgrade.ts';

/** What all connections of a server share. */
export interface ConnectionHouse {
  readonly options: HttpServerOptions;
  readonly deadlines: Deadlines;
  /** The server closes: connections end with their reply. */
  readonly isClosing: boolean;
  /** The connection is over, or has become a WebSocket. Called once. */
  left(connection: OwnConnection): void;
  /** Takes a connection over for a WebSocket. */
  socketOn(wire: Wire, handlers: SocketHandlers): WireSocket;
}

const nothing = new Uint8Array(0);

type Phase = 'head' | 'idle' | 'exchange' | 'draining' | 'closing';

/** A connection. It reads its wire from the moment it is made. */
export class OwnConnection implements Timed, WireReader, RequestSource {
  deadline = Number.POSITIVE_INFINITY;
  readonly wire: Wire;
  readonly #house: ConnectionHouse;
  readonly #address: string;
  readonly #reader = new RequestReader();
  readonly #ahead = new Ahead();
  #phase: Phase = 'head';
  #request: OwnRequest | undefined;
  #body: BodyReader | undefined;
  #long: LongReply | undefined;
  /** The connection ends with the reply under way. */
  #closes = false;
  /** The client does not wait for `100 Continue` any more. */
  #isInvited = false;
  /** Enough of a body is held that nobody has asked for. */
  #isHeld = false;
  #isFlowing = true;
  #hasEnded = false;
  /** Bytes that waited for the client when its deadline passed last. */
  #unsent = Number.POSITIVE_INFINITY;

  constructor(wire: Wire, house: ConnectionHouse, address: string) {
    this.wire = wire;
    this.#house = house;
    this.#address = address;
    wire.reader = this;
    house.deadlines.add(this);
    this.#wait('head', HEAD_TIMEOUT_MS);
    wire.resume();
  }

  /** No further request is taken: the connection closes if it is idle, else with the answer under way. */
  drain(): void {
    if (this.#phase === 'idle' || (this.#phase === 'head' && this.#reader.isEmpty)) this.#close();
  }

  /** Ends it now. */
  abort(): void {
    this.wire.destroy();
  }

  // --------------------------------------------------------------------------------------------------------- from the wire

  onData(chunk: Buffer): void {
    if (this.#phase === 'closing') return;
    // In order: what came ahead has its turn first.
    if (this.#ahead.isEmpty) this.#read(chunk);
    else this.#keep(chunk, 0);
  }

  onEnd(): void {
    this.#hasEnded = true;
    if (this.#phase === 'exchange') {
      // Whoever has sent its last byte before the answer came has left: a stream could otherwise outlive its reader for long.
      this.#abandon();
      this.wire.destroy();
    } else if (this.#phase === 'closing') this.wire.destroySoon();
    else if (this.#phase !== 'draining') this.#close();
  }

  onDrain(): void {
    if (this.#phase === 'exchange') {
      if (this.#body?.isDone !== false || this.#long !== undefined) this.deadline = Number.POSITIVE_INFINITY;
      this.#long?.drain();
    } else if (this.#phase === 'draining') {
      this.#wait('idle', HEAD_TIMEOUT_MS);
      if (this.#hasEnded || (this.#house.isClosing && this.#ahead.isEmpty)) this.#close();
      else this.#goOn();
    } else if (this.#phase === 'head') {
      // The rest of a head was not read while answers waited: its time begins anew.
      this.#wait('head', HEAD_TIMEOUT_MS);
      this.#goOn();
    }
  }

  onClose(): void {
    this.#house.deadlines.remove(this);
    this.#phase = 'closing';
    this.#ahead.clear();
    this.#abandon();
    this.#house.left(this);
  }

  onDeadline(): void {
    switch (this.#phase) {
      case 'head':
        if (this.wire.needsDrain) this.#stalled();
        else if (!this.#reader.isEmpty) this.#refuse(refusalOf(408));
        else this.#close();
        return;
      case 'idle':
        this.#close();
        return;
      case 'exchange':
        if (this.wire.needsDrain) this.#stalled();
        else if (this.#isHeld) this.#wait('exchange', BODY_TIMEOUT_MS);
        else this.#refuse(refusalOf(408));
        return;
      case 'draining':
      case 'closing':
        this.#stalled();
    }
  }

  /** Cuts a client off that has taken nothing since the deadline before. */
  #stalled(): void {
    const { unsent } = this.wire;
    if (unsent === 0 || unsent >= this.#unsent) {
      this.wire.destroy();
      return;
    }
    this.deadline = this.#house.deadlines.now() + STALL_TIMEOUT_MS;
    this.#unsent = unsent;
  }

  // ------------------------------------------------------------------------------------------------------------- requests

  /** Reads what has come; a thousand requests in it are answered one after the other, and their answers leave together. */
  #read(chunk: Buffer): void {
    this.wire.cork();
    for (let at = 0; at < chunk.length && this.#phase !== 'closing'; ) {
      if (this.#phase !== 'exchange') {
        // A client that does not read its answers gets no more of them.
        if (this.wire.needsDrain) at = this.#keep(chunk, at);
        else at = this.#readHead(chunk, at);
      } else if (this.#body?.isDone === false) at = this.#readBody(chunk, at);
      else at = this.#keep(chunk, at);
    }
    this.wire.uncork();
    if (this.#phase === 'idle' && this.wire.needsDrain) this.#wait('draining', STALL_TIMEOUT_MS);
  }

  /** Takes up what came ahead of its turn. */
  #goOn(): void {
    if ((this.#phase !== 'idle' && this.#phase !== 'head') || this.#ahead.isEmpty || this.wire.needsDrain) return;
    const chunk = Buffer.concat(this.#ahead.takeAll());
    this.#flow();
    this.#read(chunk);
  }

  #keep(chunk: Buffer, from: number): number {
    this.#ahead.keep(chunk, from);
    this.#flow();
    return chunk.length;
  }

  /** Stops reading from the client when enough waits, and goes on when it does not. */
  #flow(): void {
    const flows = !this.#ahead.isFull && !this.#isHeld;
    if (flows === this.#isFlowing) return;
    this.#isFlowing = flows;
    if (flows) this.wire.resume();
    else this.wire.pause();
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
      const answer = this.#house.options.onRequest(request);
      if (!isPromise(answer)) {
        this.#answer(request, answer);
        return;
      }
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
        if (this.#long === undefined || !this.wire.needsDrain) this.deadline = Number.POSITIVE_INFINITY;
        content.take(nothing, true);
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
    this.#isHeld = true;
    this.#flow();
  }

  resume(): void {
    this.#isHeld = false;
    this.#flow();
  }

  invite(): void {
    if (!this.#isInvited && this.#request?.content?.isUntouched) this.wire.write('HTTP/1.1 100 Continue\r\n\r\n');
    this.#isInvited = true;
  }

  // -------------------------------------------------------------------------------------------------------------- answers

  /** Answers once: later calls, and calls after the client left, write nothing. A bad reply becomes a bare 500. */
  #answer(request: OwnRequest, reply: HttpAnswer, closes = false): void {
    if (this.#request !== request || this.#long !== undefined) {
      dropStream(reply);
      return;
    }
    const sound = soundReply(reply);
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
    const isWhole = !('stream' in reply) && !('source' in reply);
    this.#closes ||= closes || this.#house.isClosing || (head.minor === 0 && !isWhole);
    if (isWhole) {
      writeWhole(this.wire, reply, method === 'HEAD', this.connectionWord);
      this.finished();
    } else if (method === 'HEAD' || isBodiless(reply.status)) {
      dropStream(reply);
      this.wire.write(headText(reply, 'none', this.connectionWord));
      this.finished();
    } else {
      try {
        this.#long = 'stream' in reply ? new OwnStream(reply, this) : new OwnPush(reply, this);
        this.#long.begin();
        // What is left of the request's body may come as slowly as it likes.
        if (this.#long !== undefined && !this.wire.needsDrain) this.deadline = Number.POSITIVE_INFINITY;
      } catch {
        this.failed(true);
      }
    }
  }

  /** What the head of the reply under way says of the connection. */
  get connectionWord(): ConnectionWord {
    if (this.#closes || this.#house.isClosing) return 'close';
    return this.minor === 0 ? 'keep-alive' : '';
  }

  /** Of the request under way: 0 for HTTP/1.0, which knows no chunks. */
  get minor(): 0 | 1 {
    return this.#request?.head.minor ?? 1;
  }

  /** Bytes of a long reply wait for the client. */
  waits(): void {
    this.#wait('exchange', STALL_TIMEOUT_MS);
  }

  /** A long reply broke off. `isSilent`: nothing of it was written. */
  failed(isSilent: boolean): void {
    this.#long = undefined;
    if (!isSilent || this.#request === undefined) {
      // Half a reply cannot become another one: cut off, so that the client does not take it for whole.
      this.wire.destroy();
      return;
    }
    writeWhole(this.wire, internalError, false, this.connectionWord);
    this.finished();
  }

  /** The reply is over: the next request's turn. */
  finished(): void {
    this.#request = undefined;
    this.#body = undefined;
    this.#long = undefined;
    if (this.#closes || this.#house.isClosing || this.#hasEnded) {
      this.#close();
      return;
    }
    this.#isHeld = false;
    this.#flow();
    if (this.wire.needsDrain) this.#wait('draining', STALL_TIMEOUT_MS);
    else {
      this.#wait('idle', HEAD_TIMEOUT_MS);
      // Not from here: a thousand requests in one packet must not become a thousand calls deep.
      if (!this.#ahead.isEmpty) setImmediate(() => this.#goOn());
    }
  }

  /** Answers what was not understood, and closes: where the next request begins is not known, so nothing more is read as one. */
  #refuse(reply: HttpReply): void {
    const isHalf = this.#long !== undefined;
    this.#abandon();
    if (isHalf) {
      // Half a reply cannot become another one.
      this.wire.destroy();
      return;
    }
    writeWhole(this.wire, reply, false, 'close');
    this.#close();
  }

  /** Nobody waits for the answer under way any more. */
  #abandon(): void {
    const [request, long] = [this.#request, this.#long];
    this.#request = undefined;
    this.#long = undefined;
    request?.abort();
    long?.abort();
  }

  /** Sends what is written, then FIN; reads and drops what still comes, so that a reset does not overtake the answer. */
  #close(): void {
    if (this.#phase === 'closing') return;
    const isIdle = this.#phase === 'idle' || (this.#phase === 'head' && this.#reader.isEmpty);
    this.#wait('closing', this.wire.needsDrain ? STALL_TIMEOUT_MS : LINGER_MS);
    this.#ahead.clear();
    if (isIdle || this.#hasEnded || this.#house.isClosing) this.wire.destroySoon();
    else {
      this.wire.resume();
      this.wire.end();
    }
  }

  #wait(phase: Phase, ms: number): void {
    this.#phase = phase;
    this.deadline = this.#house.deadlines.now() + ms;
    this.#unsent = Number.POSITIVE_INFINITY;
  }

  // ------------------------------------------------------------------------------------------------------------ WebSockets

  #upgrade(request: OwnRequest): void {
    const problem = upgradeProblem((name) => request.header(name));
    // Bytes that follow would be taken for a body by one side and for frames by the other.
    if (problem !== undefined || request.content !== undefined || request.head.minor === 0) {
      this.#refuse(problem ?? badRequest);
      return;
    }
    Promise.resolve()
      .then(() => this.#house.options.onUpgrade(request))
      .then((answer) => this.#settle(request, answer))
      .catch(() => this.#answer(request, internalError, true));
  }

  #settle(request: OwnRequest, answer: UpgradeAnswer): void {
    if ('refuse' in answer) this.#answer(request, answer.refuse, true);
    else if (this.#house.isClosing) this.#answer(request, closingReply, true);
    else if (this.#request === request) {
      const { wire } = this;
      const early = this.#ahead.takeAll();
      this.#request = undefined;
      this.#house.deadlines.remove(this);
      this.#house.left(this);
      const socket = this.#house.socketOn(wire, answer.accept);
      wire.resume();
      wire.cork();
      wire.write(switchText((name) => request.header(name)));
      socket.opened(answer.watch);
      wire.uncork();
      for (const chunk of early) socket.onData(chunk);
    }
  }
}
