import { isAscii } from 'node:buffer';
import { viewOf } from '../../lib/input.ts';
import type { ByteSink, HttpAnswer, HttpPushReply, HttpReply } from '../../proto/ports/http.ts';
import type { Wire } from '../wire/wire.ts';
import { isBodiless, isSent, statusLine } from './reply-head.ts';

/** How a reply's end is told: its length, chunks, or the end of the connection (HTTP/1.0). `none`: there is no body. */
type ReplyFraming = number | 'chunked' | 'close' | 'none';

/** What a head says of the connection; nothing where the version says it. */
export type ConnectionWord = 'close' | 'keep-alive' | '';

/** Bodies up to this many characters leave as one text with their head. */
const TOGETHER = 16_384;

let second = 0;
let dateLine = '';

/** The Date line of this second (RFC 9110, section 6.6.1). */
function date(): string {
  const now = Math.floor(Date.now() / 1000);
  if (now !== second) {
    second = now;
    dateLine = `date: ${new Date(now * 1000).toUTCString()}\r\n`;
  }
  return dateLine;
}

/** Status line and fields of a checked reply, with the empty line. */
export function headText(reply: HttpAnswer, framing: ReplyFraming, connection: ConnectionWord): string {
  let text = `HTTP/1.1 ${statusLine(reply.status)}\r\n`;
  for (const [name, value] of reply.headers) {
    if (isSent(name)) text += `${name}: ${value}\r\n`;
  }
  text += date();
  if (typeof framing === 'number') text += `content-length: ${framing}\r\n`;
  else if (framing === 'chunked') text += 'transfer-encoding: chunked\r\n';
  return connection === '' ? `${text}\r\n` : `${text}connection: ${connection}\r\n\r\n`;
}

/** Writes a checked reply; `isHead`: without its body. What does not leave at once stays where it is until it has. */
export function writeWhole(wire: Wire, reply: HttpReply, isHead: boolean, connection: ConnectionWord): void {
  const body = reply.body ?? '';
  if (isBodiless(reply.status)) {
    wire.write(headText(reply, 'none', connection));
    return;
  }
  if (typeof body === 'string' && body.length <= TOGETHER) {
    const length = Buffer.byteLength(body);
    const head = headText(reply, length, connection);
    if (isHead) wire.write(head);
    else if (length === body.length) wire.write(head + body);
    else wire.write(Buffer.from(head + body));
    return;
  }
  const bytes = typeof body === 'string' ? Buffer.from(body) : viewOf(body);
  const head = headText(reply, bytes.length, connection);
  if (isHead) {
    wire.write(head);
    return;
  }
  wire.cork();
  wire.write(head);
  wire.writeStable(bytes);
  wire.uncork();
}

/** What a pushed reply needs of its connection. */
export interface ReplyOwner {
  readonly wire: Wire;
  /** Of the request: 0 for HTTP/1.0, which knows no chunks. */
  readonly minor: 0 | 1;
  /** What the head says of the connection; asked once, when it is written. */
  readonly connectionWord: ConnectionWord;
  /** Bytes wait for the client: it has so long to take them. */
  waits(): void;
  /** The reply is over. */
  finished(): void;
  /** It broke off. `isSilent`: nothing of it was written, so that another reply is possible. */
  failed(isSilent: boolean): void;
  /** Told what its source threw. */
  fault(error: unknown): void;
}

/** A pushed reply on its way. */
export class OwnPush implements ByteSink {
  readonly #reply: HttpPushReply;
  readonly #owner: ReplyOwner;
  /** Undefined while nothing was written. */
  #framing: 'chunked' | 'close' | undefined;
  #isOver = false;

  constructor(reply: HttpPushReply, owner: ReplyOwner) {
    this.#reply = reply;
    this.#owner = owner;
  }

  /** Opens the source. Called once, first. */
  begin(): void {
    try {
      this.#reply.source.open(this);
    } catch (error) {
      this.#broke(error);
    }
  }

  /** Also false when the connection has ended, which is told next. */
  write(chunk: Uint8Array): boolean {
    if (this.#isOver) return false;
    const { wire } = this.#owner;
    if (wire.isDestroyed) return false;
    if (chunk.length === 0) return !wire.needsDrain;
    wire.cork();
    const framing = this.#head();
    const bytes = viewOf(chunk);
    const isText = bytes.length < 4096 && isAscii(bytes);
    if (framing === 'close') wire.write(bytes);
    else if (isText) wire.write(`${bytes.length.toString(16)}\r\n${bytes.toString('latin1')}\r\n`);
    else {
      wire.write(`${bytes.length.toString(16)}\r\n`);
      wire.write(bytes);
      wire.write('\r\n');
    }
    wire.uncork();
    if (wire.isDestroyed) return false;
    if (!wire.needsDrain) return true;
    this.#owner.waits();
    return false;
  }

  end(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    const { wire } = this.#owner;
    wire.cork();
    if (this.#head() === 'chunked') wire.write('0\r\n\r\n');
    wire.uncork();
    this.#closed();
    this.#owner.finished();
  }

  /** What was written has left. */
  drain(): void {
    if (this.#isOver) return;
    try {
      this.#reply.source.drain();
    } catch (error) {
      this.#broke(error);
    }
  }

  /** The client left, or is cut off. */
  abort(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#closed();
  }

  /** Sends the head, if it was not sent. */
  #head(): 'chunked' | 'close' {
    if (this.#framing === undefined) {
      const { minor, connectionWord, wire } = this.#owner;
      this.#framing = minor === 1 ? 'chunked' : 'close';
      wire.write(headText(this.#reply, this.#framing, connectionWord));
    }
    return this.#framing;
  }

  /** What a source throws ends its reply, and reaches nobody else: callers are the wire's callbacks. */
  #broke(error: unknown): void {
    this.#owner.fault(error);
    if (this.#isOver) return;
    this.abort();
    this.#owner.failed(this.#framing === undefined);
  }

  #closed(): void {
    try {
      this.#reply.source.closed();
    } catch (error) {
      this.#owner.fault(error);
    }
  }
}
