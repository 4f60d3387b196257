import type { HttpResponse } from 'uWebSockets.js';
import type { ByteSink, ByteSource, HttpAnswer, HttpPushReply, HttpReply } from '../../proto/ports/http.ts';
import { dropStream, internalError, isBodiless, isSent, soundReply, statusLine } from './reply-head.ts';
import type { UwsRequest } from './uws-request.ts';

/** Bodies up to this many bytes are handed over at once; the library buffers what the client does not take. */
const WHOLE_BYTES = 64 * 1024;

/** Writes status and headers. */
function writeHead(res: HttpResponse, reply: HttpAnswer, closing: boolean): void {
  if (reply.status !== 200) res.writeStatus(statusLine(reply.status));
  for (const [name, value] of reply.headers) {
    if (isSent(name)) res.writeHeader(name, value);
  }
  if (closing) res.writeHeader('connection', 'close');
}

/**
 * Writes a checked reply, inside the library's callback or a cork. `head`: answer to HEAD, no body. `closing`: the
 * connection ends with it. Returns true when all is taken; else `done` is called then, unless the client leaves.
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
    if (!isBodiless(reply.status)) res.writeHeader('content-length', String(Buffer.byteLength(body)));
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

/** What an exchange needs of its server, and a pushed stream of its exchange, and later of the server. */
interface PushOwner {
  /** The server closes: connections end with their reply. */
  readonly closing: boolean;
  /** The exchange is over, or the stream has ended by itself; of one that was adopted, in any way. */
  ended(): void;
  /** Told what its source threw. */
  fault(error: unknown): void;
}

// How a stream is, as bits.
/** Bytes wait for the reader. */
const FULL = 1;
/** The library says when they are on their way. */
const HEARS_OF_ROOM = 2;
/** Nobody but the stream hears that the client left. */
const ADOPTED = 4;

/** One pushed stream. There are many, most of them silent: no promise, no closure made before it is needed. */
class UwsPush implements ByteSink {
  #res: HttpResponse | undefined;
  /** Until the head is written. */
  #head: HttpPushReply | undefined;
  readonly #source: ByteSource;
  #owner: PushOwner;
  #flags = 0;

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

  /** Takes over from its exchange, of which nothing is left: hears when the client leaves; tells `owner` of its end. */
  adopt(owner: PushOwner): void {
    this.#owner = owner;
    this.#flags |= ADOPTED;
    // A bound function weighs half of a closure, and the library lets go of the one it had.
    this.#res?.onAborted(this.abort.bind(this));
  }

  write(chunk: Uint8Array): boolean {
    const res = this.#res;
    if (res === undefined) return false;
    if (chunk.length === 0) return (this.#flags & FULL) === 0;
    corked = this;
    bytes = chunk;
    res.cork(writeCorked);
    if ((this.#flags & FULL) === 0) return true;
    if ((this.#flags & HEARS_OF_ROOM) === 0) {
      this.#flags |= HEARS_OF_ROOM;
      res.onWritable(() => this.#writable());
    }
    return false;
  }

  end(): void {
    const res = this.#res;
    if (res === undefined) return;
    this.#res = undefined;
    res.cork(() => {
      this.#writeHead(res);
      res.end('', this.#owner.closing);
    });
    this.#closed();
    this.#owner.ended();
  }

  fail(): void {
    const res = this.#res;
    if (res === undefined) return;
    // Half a reply cannot become another one. The library then says that it was aborted.
    if (!this.isSilent) return void res.close();
    this.#res = undefined;
    res.cork(() => writeReply(res, internalError, false, this.#owner.closing));
    this.#closed();
    this.#owner.ended();
  }

  /** The client left, or is cut off. */
  abort(): void {
    if (this.#res === undefined) return;
    this.#res = undefined;
    this.#closed();
    if ((this.#flags & ADOPTED) !== 0) this.#owner.ended();
  }

  /** Within a cork. */
  take(chunk: Uint8Array): void {
    const res = this.#res;
    if (res === undefined) return;
    this.#writeHead(res);
    if (!res.write(chunk)) this.#flags |= FULL;
  }

  #writeHead(res: HttpResponse): void {
    if (this.#head === undefined) return;
    writeHead(res, this.#head, this.#owner.closing);
    this.#head = undefined;
  }

  #writable(): boolean {
    if ((this.#flags & FULL) === 0) return true;
    this.#flags &= ~FULL;
    try {
      this.#source.drain();
    } catch (error) {
      this.#owner.fault(error);
      // Half a reply cannot become another one. The library then says that it was aborted.
      this.#res?.close();
    }
    return true;
  }

  #closed(): void {
    try {
      this.#source.closed();
    } catch (error) {
      this.#owner.fault(error);
    }
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
