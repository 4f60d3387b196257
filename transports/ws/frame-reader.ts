/** Reads a client's frames (RFC 6455, section 5), cut anywhere. Strict: each broken rule ends the socket. */
import { isUtf8 } from 'node:buffer';

/** Who is told what a client sent. What is handed over as bytes is lent: it is copied by whoever keeps it. */
export interface FrameSink {
  /** Largest message that is taken, in bytes, its fragments together. */
  readonly maxMessageBytes: number;
  /** Nothing more is to be told for now. */
  readonly isStopped: boolean;
  /** A whole message; text is checked UTF-8. */
  onMessage(isText: boolean, bytes: Buffer): void;
  onPing(payload: Buffer): void;
  onPong(): void;
  /** The client's close frame: its code (1005 for none) and reason. */
  onCloseFrame(code: number, reason: string): void;
  /** The client broke a rule: the code to close with (section 7.4.1), and why. */
  onBroken(code: 1002 | 1007 | 1009, reason: string): void;
}

const [CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG] = [0, 1, 2, 8, 9, 10];
/** The longest head: two bytes, a length of eight, a mask of four. */
const MAX_HEAD = 14;
const MAX_CONTROL = 125;
const nothing = Buffer.alloc(0);

/** The reader of one socket. One that `isAtRest` remembers nothing and may serve another. */
export class FrameReader {
  readonly #head = Buffer.allocUnsafeSlow(MAX_HEAD);
  #headLength = 0;
  /** The frame under way, once its head is read. */
  #isInFrame = false;
  #opcode = 0;
  #isFinal = false;
  #remaining = 0;
  readonly #mask = new Uint8Array(4);
  #maskAt = 0;
  #control: Buffer | undefined;
  #controlLength = 0;
  /** The message under way: BINARY, TEXT, or 0 for none. */
  #kind = 0;
  #message = nothing;
  #length = 0;
  #isBroken = false;

  /** Whether nothing is under way. */
  get isAtRest(): boolean {
    return this.#headLength === 0 && !this.#isInFrame && this.#kind === 0 && !this.#isBroken;
  }

  /** Reads `bytes` from `at` on, until the sink is stopped or a rule is broken; they are changed. Where it stopped. */
  push(bytes: Buffer, from: number, sink: FrameSink): number {
    let at = from;
    while (at < bytes.length && !sink.isStopped && !this.#isBroken) {
      if (!this.#isInFrame) {
        at = this.#readHead(bytes, at, sink);
        if (!this.#isInFrame || this.#isBroken) continue;
      }
      const to = Math.min(bytes.length, at + this.#remaining);
      this.#unmask(bytes, at, to);
      const isWhole = to - at === this.#remaining;
      // Most frames come whole, and most messages in one frame: nothing of them is kept.
      if (isWhole && this.#controlLength === 0 && this.#length === 0 && (this.#isFinal || this.#opcode >= CLOSE)) {
        this.#remaining = 0;
        this.#finish(bytes.subarray(at, to), sink);
      } else {
        this.#keep(bytes, at, to);
        this.#remaining -= to - at;
        if (this.#remaining === 0) this.#finish(nothing, sink);
      }
      at = to;
    }
    return at;
  }

  /** Reads a frame's head as far as it is there; where the rest begins. The first byte that breaks a rule shows it. */
  #readHead(bytes: Buffer, from: number, sink: FrameSink): number {
    let at = from;
    while (at < bytes.length) {
      this.#head[this.#headLength++] = bytes[at++] ?? 0;
      const broken = this.#headLength > 2 ? undefined : this.#ruleBroken();
      if (broken !== undefined) {
        this.#break(1002, broken, sink);
        return at;
      }
      if (this.#headLength < 6) continue;
      const short = (this.#head[1] ?? 0) & 0x7f;
      const size = short < 126 ? 0 : short === 126 ? 2 : 8;
      if (this.#headLength === 6 + size) {
        this.#begin(short, size, sink);
        return at;
      }
    }
    return at;
  }

  /** What is wrong with the first or the second byte. */
  #ruleBroken(): string | undefined {
    const first = this.#head[0] ?? 0;
    const opcode = first & 0x0f;
    if (this.#headLength === 1) {
      if ((first & 0x70) !== 0) return 'a reserved bit is set';
      if ((opcode > BINARY && opcode < CLOSE) || opcode > PONG) return 'an opcode that is reserved';
      if (opcode >= CLOSE) return (first & 0x80) === 0 ? 'a control frame is fragmented' : undefined;
      if (opcode === CONTINUATION) return this.#kind === 0 ? 'a continuation of nothing' : undefined;
      return this.#kind === 0 ? undefined : 'a message begins inside another';
    }
    const second = this.#head[1] ?? 0;
    if ((second & 0x80) === 0) return 'a frame is not masked';
    return opcode >= CLOSE && (second & 0x7f) > MAX_CONTROL ? 'a control frame is too long' : undefined;
  }

  /** The head is whole. */
  #begin(short: number, size: number, sink: FrameSink): void {
    const length =
      size === 0
        ? short
        : size === 2
          ? this.#head.readUInt16BE(2)
          : this.#head.readUInt32BE(2) * 2 ** 32 + this.#head.readUInt32BE(6);
    this.#headLength = 0;
    // Section 5.2: the shortest form, always.
    if ((size === 2 && length < 126) || (size === 8 && length < 65_536)) {
      this.#break(1002, 'a length that is not in its shortest form', sink);
      return;
    }
    this.#opcode = (this.#head[0] ?? 0) & 0x0f;
    if (this.#opcode < CLOSE && this.#length + length > sink.maxMessageBytes) {
      this.#break(1009, 'a message is too large', sink);
      return;
    }
    this.#isFinal = (this.#head[0] ?? 0) >= 0x80;
    if (this.#opcode === TEXT || this.#opcode === BINARY) this.#kind = this.#opcode;
    this.#head.copy(this.#mask, 0, 2 + size, 6 + size);
    this.#maskAt = 0;
    this.#remaining = length;
    this.#isInFrame = true;
    // A frame of nothing ends with its head: no further byte may come.
    if (length === 0) this.#finish(nothing, sink);
  }

  #unmask(bytes: Buffer, from: number, to: number): void {
    const [a = 0, b = 0, c = 0, d = 0] = this.#mask;
    if ((a | b | c | d) === 0) return;
    let at = from;
    for (; at < to && this.#maskAt !== 0; at++) {
      bytes[at] = (bytes[at] ?? 0) ^ (this.#mask[this.#maskAt] ?? 0);
      this.#maskAt = (this.#maskAt + 1) & 3;
    }
    for (; at + 3 < to; at += 4) {
      bytes[at] = (bytes[at] ?? 0) ^ a;
      bytes[at + 1] = (bytes[at + 1] ?? 0) ^ b;
      bytes[at + 2] = (bytes[at + 2] ?? 0) ^ c;
      bytes[at + 3] = (bytes[at + 3] ?? 0) ^ d;
    }
    for (; at < to; at++) bytes[at] = (bytes[at] ?? 0) ^ (this.#mask[this.#maskAt++] ?? 0);
  }

  /** Keeps a copy. Room doubles with what came, not with what was announced: small parts are not copied for each. */
  #keep(bytes: Buffer, from: number, to: number): void {
    if (this.#opcode >= CLOSE) {
      this.#control ??= Buffer.allocUnsafeSlow(MAX_CONTROL);
      this.#controlLength += bytes.copy(this.#control, this.#controlLength, from, to);
      return;
    }
    const length = this.#length + to - from;
    if (length > this.#message.length) {
      const larger = Buffer.allocUnsafeSlow(Math.max(length, 2 * this.#length));
      this.#message.copy(larger, 0, 0, this.#length);
      this.#message = larger;
    }
    bytes.copy(this.#message, this.#length, from, to);
    this.#length = length;
  }

  /** The frame is whole. `payload`: all of it, if nothing of it was kept. */
  #finish(payload: Buffer, sink: FrameSink): void {
    this.#isInFrame = false;
    if (this.#opcode >= CLOSE) {
      const held = this.#controlLength === 0 ? payload : this.#control?.subarray(0, this.#controlLength);
      this.#controlLength = 0;
      this.#tellControl(held ?? nothing, sink);
      return;
    }
    if (!this.#isFinal) return;
    const isText = this.#kind === TEXT;
    const message = this.#length === 0 ? payload : this.#message.subarray(0, this.#length);
    this.#kind = 0;
    this.#message = nothing;
    this.#length = 0;
    if (isText && !isUtf8(message)) this.#break(1007, 'text that is not UTF-8', sink);
    else sink.onMessage(isText, message);
  }

  #tellControl(payload: Buffer, sink: FrameSink): void {
    if (this.#opcode === PING) sink.onPing(payload);
    else if (this.#opcode === PONG) sink.onPong();
    else if (payload.length === 0) sink.onCloseFrame(1005, '');
    else if (payload.length === 1) this.#break(1002, 'a close code of one byte', sink);
    else {
      const code = payload.readUInt16BE(0);
      const reason = payload.subarray(2);
      if (!isCloseCode(code)) this.#break(1002, 'a close code that is none', sink);
      else if (!isUtf8(reason)) this.#break(1007, 'a reason that is not UTF-8', sink);
      else sink.onCloseFrame(code, reason.toString());
    }
  }

  #break(code: 1002 | 1007 | 1009, reason: string, sink: FrameSink): void {
    this.#isBroken = true;
    sink.onBroken(code, reason);
  }
}

/** Codes that may be sent (RFC 6455, section 7.4, and the registry it began). */
function isCloseCode(code: number): boolean {
  if (code >= 3000) return code <= 4999;
  return code >= 1000 && code <= 1014 && code !== 1004 && code !== 1005 && code !== 1006;
}

let spare: FrameReader | undefined;

/** A reader at rest: sockets that wait for a frame have none. */
export function takeReader(): FrameReader {
  const reader = spare ?? new FrameReader();
  spare = undefined;
  return reader;
}

/** Gives back a reader at rest. */
export function giveReader(reader: FrameReader): void {
  spare = reader;
}
