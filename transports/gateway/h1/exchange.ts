/** One request on its way to an origin and its response on the way back, with backpressure both ways. */
import { BodyReader, ChunkError } from '../../wire/h1/body.ts';
import { HeadBuffer } from '../../wire/h1/head-reader.ts';
import type { RequestHead } from '../../wire/h1/request-head.ts';
import type { CacheSink } from './cache-hook.ts';
import {
  type BorrowedConnection,
  type ExchangeClient,
  GONE,
  type ResponseReader,
  writeChunk,
} from './exchange-sides.ts';
import { withOwnFields } from './own-fields.ts';
import { type ResponseHead, readResponseHead } from './response-head.ts';
import { UpstreamError } from './restarting-origins.ts';
import type { Destination, Upstreams } from './upstreams.ts';
import {
  type ClientFraming,
  clientFraming,
  type Forwarded,
  interimFor,
  requestFor,
  responseFor,
  switchingFor,
} from './write-heads.ts';

/** Most bytes of a response's head, and most interim responses before it. */
const MAX_RESPONSE_HEAD = 65_536;
const MAX_INTERIM = 16;
/** Methods that change nothing (RFC 9110, 9.2.1): sent again when the first connection was found dead. */
const SAFE = new Set(['GET', 'HEAD', 'OPTIONS', 'TRACE']);
const LAST_CHUNK = '0\r\n\r\n';
/** Most bytes read of a response that nobody wants, for the sake of those behind it. */
const MAX_UNWANTED = 65_536;

const BUSY = 'The service behind this address is busy: try again soon.';
const STARTING = 'The service behind this address is starting: try again soon.';

/** What a finished exchange has sent, for the log. */
export interface Sent {
  status: number;
  bytes: number;
}

/** A request to forward. */
interface Forward {
  readonly head: RequestHead;
  readonly address: Destination;
  readonly target: string;
  readonly client: Forwarded;
  /** Whether the client may send another request after this. */
  readonly keepAlive: boolean;
  /** Is shown the response. */
  readonly sink?: CacheSink | undefined;
  /** A line for the response's head. */
  readonly says?: string | undefined;
}

/** One exchange. `start`, then `body` and `endBody` as they come, `abort` when the client is gone. */
export class Exchange implements ResponseReader {
  readonly sent: Sent = { status: 0, bytes: 0 };
  #client: ExchangeClient;
  readonly #upstreams: Upstreams;
  readonly #forward: Forward;
  /** Only while a connection is opened. */
  #giveUp: AbortController | undefined;
  #sink: CacheSink | undefined;
  #unwanted = 0;
  #responseHead = new HeadBuffer(MAX_RESPONSE_HEAD);
  #borrowed: BorrowedConnection | undefined;
  #isOver = false;
  #isBodySent: boolean;
  #hasBodyBegun = false;
  #hasAnswered = false;
  /** When a connection of its own broke off first. */
  #brokeAt: number | undefined;
  #interim = 0;
  #response: ResponseHead | undefined;
  #framing: ClientFraming = 'as_is';
  #body: BodyReader | undefined;

  constructor(client: ExchangeClient, upstreams: Upstreams, forward: Forward) {
    this.#client = client;
    this.#upstreams = upstreams;
    this.#forward = forward;
    this.#sink = forward.sink;
    this.#isBodySent = forward.head.framing.kind === 'none';
  }

  /** Whether the response's head has been sent to the client. */
  get hasResponded(): boolean {
    return this.#response !== undefined;
  }

  /** Finds a connection and sends the head. */
  start(): void {
    const shared = this.#mayShare ? this.#upstreams.share(this.#forward.address) : undefined;
    if (shared !== undefined) this.#use(shared);
    else this.#startAlone();
  }

  /**
   * Whether it may be sent before others are answered: if they break off it is sent again, and nothing is switched or
   * awaited. HEAD may not: the body of an origin's wrong answer to it would reach whoever is behind.
   */
  get #mayShare(): boolean {
    const { method, framing, upgrade } = this.#forward.head;
    return method === 'GET' && framing.kind === 'none' && upgrade.length === 0;
  }

  #startAlone(): void {
    const reused = this.#upstreams.reuse(this.#forward.address, this.#forward.client.address);
    if (reused !== undefined) this.#use(reused);
    else this.#open();
  }

  /** Sends a part of the body; false asks to wait for `resumeBody`. */
  body(data: Buffer): boolean {
    const wire = this.#borrowed?.own;
    if (this.#isOver || wire === undefined || data.length === 0) return true;
    this.#hasBodyBegun = true;
    if (this.#forward.head.framing.kind !== 'chunked') return wire.write(data);
    return writeChunk(wire, data);
  }

  /** The body is over. */
  endBody(): void {
    if (this.#isBodySent) return;
    this.#isBodySent = true;
    if (!this.#isOver && this.#forward.head.framing.kind === 'chunked') this.#borrowed?.own?.write(LAST_CHUNK);
  }

  /** The client takes more of the response. */
  resume(): void {
    this.#sink?.resumed();
    this.#borrowed?.resume();
  }

  /** Nobody wants the response any more. */
  abort(): void {
    if (this.#isOver) return;
    this.#sink?.abort();
    if (this.#borrowed?.abandon()) {
      this.#client = GONE;
      this.#sink = undefined;
      this.#borrowed.resume();
    } else this.#end(false);
  }

  #open(isLater = false): void {
    this.#giveUp = new AbortController();
    const { signal } = this.#giveUp;
    const { address, client } = this.#forward;
    const opening = isLater
      ? this.#upstreams.openLater(address, client.address, signal)
      : this.#upstreams.open(address, client.address, signal);
    opening.then(
      (borrowed) => {
        this.#giveUp = undefined;
        if (this.#isOver) borrowed.release(false);
        else this.#use(borrowed);
      },
      (error: unknown) => {
        if (this.#isOver) return;
        const code = error instanceof UpstreamError ? error.code : 'connect_failed';
        if (code === 'connect_failed' && !isLater && this.#upstreams.mayWait(address)) this.#open(true);
        else if (code === 'too_many') this.#fail(503, BUSY);
        else if (code === 'held_too_long') this.#fail(503, STARTING);
        else if (code === 'connect_timeout') this.#fail(504, 'The service behind this address did not answer in time.');
        else this.#fail(502, 'The service behind this address does not answer.');
      },
    );
  }

  #use(borrowed: BorrowedConnection): void {
    this.#borrowed = borrowed;
    const { head, target, client } = this.#forward;
    borrowed.attach(this);
    borrowed.write(requestFor(head, target, client, head.upgrade[0]));
    this.#client.ready();
  }

  onDrain(): void {
    this.#client.resumeBody();
  }

  onData(chunk: Buffer): void {
    this.take(chunk, 0);
  }

  take(chunk: Buffer, from: number): number {
    this.#client.progress();
    this.#hasAnswered = true;
    let at = from;
    while (this.#response === undefined) {
      const found = this.#responseHead.push(chunk, at);
      if (found === undefined) return chunk.length;
      if (typeof found === 'string') {
        this.#distrust('The service behind this address answered with no HTTP.');
        return chunk.length;
      }
      const read = readResponseHead(found.text, this.#forward.head.method);
      if (typeof read === 'string') {
        this.#distrust(`The service behind this address answered with no HTTP: ${read}.`);
        return chunk.length;
      }
      const response = withOwnFields(this.#forward.client, read);
      at = found.next;
      if (response.status === 101) {
        this.#switch(response, chunk.subarray(at));
        return chunk.length;
      }
      if (response.status < 200) {
        if (++this.#interim > MAX_INTERIM) {
          this.#distrust('The service behind this address does not come to an answer.');
          return chunk.length;
        }
        // Continue is ours to say; others are news for clients that know them (RFC 9110, section 15.2).
        if (response.status !== 100 && this.#forward.head.minor === 1) this.#client.write(interimFor(response));
        continue;
      }
      this.#client.cork();
      const client = this.#client;
      this.#begin(response);
      const next = this.#bodyOf(chunk, at);
      client.uncork();
      return next;
    }
    return this.#bodyOf(chunk, at);
  }

  onMoved(): void {
    if (this.#isOver) return;
    this.#borrowed?.detach();
    this.#borrowed = undefined;
    if (this.#client === GONE) {
      this.#isOver = true;
      return;
    }
    this.#responseHead = new HeadBuffer(MAX_RESPONSE_HEAD);
    this.#hasAnswered = false;
    this.#startAlone();
  }

  /** What came is no response; in a place among others it may be what was left of another one. */
  #distrust(reason: string): void {
    if (!this.#borrowed?.distrust()) this.#fail(502, reason);
  }

  #begin(response: ResponseHead): void {
    const { head, keepAlive, says } = this.#forward;
    const sink = this.#sink;
    this.#response = response;
    this.sent.status = response.status;
    this.#framing = clientFraming(response, head.minor);
    this.#body = new BodyReader(response.framing);
    const keeps = keepAlive && this.#framing !== 'until_close' && this.#isBodySent;
    const shown = sink === undefined ? response : sink.begin(response);
    this.#client.write(responseFor(shown, this.#framing, keeps, head.minor, says));
  }

  /** Where what follows the body begins. */
  #bodyOf(chunk: Buffer, from: number): number {
    const body = this.#body;
    if (body === undefined) return chunk.length;
    let next: number;
    try {
      next = body.read(chunk, from, (start, end) => this.#pass(chunk, start, end));
    } catch (error) {
      if (!(error instanceof ChunkError)) throw error;
      this.#break();
      return chunk.length;
    }
    // Bytes beyond the body are nobody's answer, unless others wait for theirs: such a connection is not
    // used again.
    if (body.isDone) this.#finish(next === chunk.length || this.#borrowed?.own === undefined);
    return next;
  }

  #pass(chunk: Buffer, from: number, to: number): void {
    if (from === to) return;
    this.sent.bytes += to - from;
    const data = from === 0 && to === chunk.length ? chunk : chunk.subarray(from, to);
    if (this.#client === GONE) {
      this.#unwanted += to - from;
      if (this.#unwanted > MAX_UNWANTED) this.#end(false);
      return;
    }
    const sink = this.#sink;
    sink?.data(data);
    let more: boolean;
    if (this.#framing === 'chunked') more = writeChunk(this.#client, data);
    else more = this.#client.write(data);
    if (more) return;
    this.#borrowed?.pause();
    sink?.paused();
  }

  #finish(isClean: boolean): void {
    if (this.#isOver) return;
    if (this.#framing === 'chunked') this.#client.write(LAST_CHUNK);
    const keepOrigin = isClean && this.#isBodySent && this.#response?.keepAlive === true;
    const isEndClear = this.#framing !== 'until_close';
    this.#end(keepOrigin);
    this.#sink?.end();
    this.#client.finish(isEndClear && this.#isBodySent);
  }

  onEnd(): void {
    if (this.#isOver) return;
    // Only a clean end is an end; a reset comes as 'close' without it.
    if (this.#response?.framing.kind === 'until_close') {
      this.#finish(false);
      return;
    }
    this.#lost();
  }

  onClose(): void {
    this.#lost();
  }

  /** The connection ended before the response did. */
  #lost(): void {
    if (this.#isOver) return;
    if (this.#response !== undefined) {
      this.#break();
      return;
    }
    const { head } = this.#forward;
    if (this.#borrowed?.isEvicted === true) {
      this.#fail(503, BUSY);
      return;
    }
    const isReused = this.#borrowed?.isReused === true;
    const isLater = !isReused && this.#brokeAt !== undefined;
    if (
      (isReused || this.#upstreams.mayAskAgain(this.#forward.address, this.#brokeAt)) &&
      this.#client !== GONE &&
      !this.#hasAnswered &&
      !this.#hasBodyBegun &&
      head.framing.kind === 'none' &&
      SAFE.has(head.method)
    ) {
      // It was closed while it was idle, or its program was ended; a connection of its own tells more.
      if (!isReused) this.#brokeAt ??= performance.now();
      this.#borrowed?.detach();
      this.#borrowed?.release(false);
      this.#borrowed = undefined;
      this.#open(isLater);
      return;
    }
    this.#fail(502, 'The service behind this address broke off before it answered.');
  }

  #switch(response: ResponseHead, rest: Buffer): void {
    const [asked] = this.#forward.head.upgrade;
    const [got] = response.upgrade;
    const wire = this.#borrowed?.own;
    // Only what was asked for is switched to (RFC 9110, section 7.8).
    if (asked === undefined || got !== asked || wire === undefined) {
      this.#fail(502, 'The service behind this address switched to a protocol that nobody asked for.');
      return;
    }
    if (this.#borrowed?.outlives?.() === false) {
      this.#fail(503, BUSY);
      return;
    }
    this.sent.status = 101;
    this.#response = response;
    this.#isOver = true;
    this.#borrowed?.detach();
    this.#sink?.abort();
    wire.pause();
    this.#client.write(switchingFor(response, got));
    this.#client.switched(wire, rest, this.#forward.address.host);
  }

  #break(): void {
    if (this.#isOver) return;
    this.#end(false);
    this.#sink?.abort();
    this.#client.destroy();
  }

  #fail(status: 502 | 503 | 504, reason: string): void {
    if (this.#isOver) return;
    this.#end(false);
    this.#sink?.fail(status, reason);
    this.#client.fail(status, reason);
  }

  #end(keepOrigin: boolean): void {
    this.#isOver = true;
    this.#giveUp?.abort();
    this.#borrowed?.detach();
    this.#borrowed?.release(keepOrigin);
  }
}
