/** Takes a client's bytes until they are a request's head, or what to refuse them with. */
import type { ProxyReply } from '../../../proto/gateway/traffic.ts';
import { type ShorterHead, withoutForeignCookies } from './foreign-cookies.ts';
import { MAX_HEAD_BYTES, type RequestHead, readRequestHead } from './request-head.ts';

const CR = 0x0d;
const LF = 0x0a;
const EMPTY_LINE = '\r\n';
/** Most bytes that are left out of a head. Browsers keep 180 cookies of 4 KiB for a domain. */
const MAX_LEFT_OUT = 1024 * 1024;

/** The end of a head was found: its text (latin1, with the empty line) and where the rest of the chunk begins. */
interface HeadFound {
  readonly text: string;
  readonly next: number;
}

/**
 * Bytes of one head. `push` gives the head once it is complete, undefined while it is not, `too_large` past the limit,
 * and `broken` as soon as a line ends in anything but CRLF: such a head need not be waited for.
 */
export class HeadBuffer {
  readonly #max: number;
  readonly #shorten: ((text: string) => ShorterHead) | undefined;
  #leftOut = 0;
  #cookies = 0;
  #held: Buffer | undefined;
  #length = 0;

  /** `shorten`: takes out what does not count, of a head that has no room. */
  constructor(max: number, shorten?: (text: string) => ShorterHead) {
    this.#max = max;
    this.#shorten = shorten;
  }

  /** Whether cookies took most of the room of a head that is too large. */
  get isFullOfCookies(): boolean {
    return this.#cookies > this.#max / 2;
  }

  /** Whether nothing of a head has come. */
  get isEmpty(): boolean {
    return this.#length === 0;
  }

  /** Takes `chunk` from `start` on. What must be kept of it is copied. */
  push(chunk: Buffer, start = 0): HeadFound | 'too_large' | 'broken' | undefined {
    const [before, shorten] = [this.#length, this.#shorten];
    const tried = this.#push(chunk, start);
    if (shorten === undefined || (tried !== 'too_large' && this.#leftOut === 0)) return tried;
    const found = tried === 'too_large' ? this.#pushShortened(chunk, start + this.#length - before, shorten) : tried;
    if (typeof found !== 'object') return found;
    [this.#leftOut, this.#cookies] = [0, 0];
    return { ...found, text: shorten(found.text).text };
  }

  #push(chunk: Buffer, start: number): HeadFound | 'too_large' | 'broken' | undefined {
    if (this.#length === 0) {
      // No more than a head may have is looked at.
      const end = endOfHead(chunk, Math.min(chunk.length, start + this.#max), start, start);
      if (end === -2) return 'broken';
      if (end === -1) return this.#keep(chunk, start, chunk.length);
      return { text: chunk.toString('latin1', start, end), next: end };
    }
    const before = this.#length;
    const to = Math.min(chunk.length, start + this.#max - before);
    const kept = this.#keep(chunk, start, to);
    const held = this.#held;
    if (kept !== undefined || held === undefined) return kept;
    const end = endOfHead(held, this.#length, 0, Math.max(0, before - 3));
    if (end === -2) return 'broken';
    if (end === -1) return to < chunk.length ? 'too_large' : undefined;
    this.#length = 0;
    this.#held = undefined;
    return { text: held.toString('latin1', 0, end), next: start + end - before };
  }

  /** Goes on with `chunk` at `at`, and makes room whenever there is none. */
  #pushShortened(
    chunk: Buffer,
    at: number,
    shorten: (text: string) => ShorterHead,
  ): HeadFound | 'too_large' | 'broken' | undefined {
    for (let from = at; ; ) {
      if (this.#length === this.#max && !this.#makeRoom(shorten)) return 'too_large';
      if (from === chunk.length) return undefined;
      const looked = Math.max(0, this.#length - 3);
      const to = Math.min(chunk.length, from + this.#max - this.#length);
      this.#keep(chunk, from, to);
      const held = this.#held;
      if (held === undefined) return undefined;
      const end = endOfHead(held, this.#length, 0, looked);
      if (end === -2) return 'broken';
      if (end !== -1) {
        const next = to - (this.#length - end);
        [this.#held, this.#length] = [undefined, 0];
        return { text: held.toString('latin1', 0, end), next };
      }
      from = to;
    }
  }

  /** Whether there is some: a quarter, so that the work stays in proportion to what comes. */
  #makeRoom(shorten: (text: string) => ShorterHead): boolean {
    const held = this.#held;
    if (held === undefined) return false;
    const { text, cookies } = shorten(held.toString('latin1', 0, this.#length));
    this.#cookies = cookies;
    this.#leftOut += this.#length - text.length;
    if (text.length > (this.#max * 3) / 4 || this.#leftOut > MAX_LEFT_OUT) return false;
    this.#length = held.write(text, 'latin1');
    return true;
  }

  /** Copies part of `chunk` behind what is held. Room doubles: a head of single bytes is not copied for each. */
  #keep(chunk: Buffer, from: number, to: number): 'too_large' | undefined {
    const length = this.#length + to - from;
    if (length > this.#max) return 'too_large';
    if (this.#held === undefined || this.#held.length < length) {
      const larger = Buffer.allocUnsafe(Math.min(this.#max, Math.max(256, 2 * length)));
      this.#held?.copy(larger, 0, 0, this.#length);
      this.#held = larger;
    }
    chunk.copy(this.#held, this.#length, from, to);
    this.#length = length;
    return undefined;
  }
}

/**
 * Index after the empty line that ends the head which begins at `start`, looking from `from` on; -1 when it has not
 * come within `length`, -2 when a line ends in a bare LF.
 */
function endOfHead(bytes: Buffer, length: number, start: number, from: number): number {
  let lf = bytes.indexOf(LF, from);
  while (lf !== -1 && lf < length) {
    if (lf === start || bytes[lf - 1] !== CR) return -2;
    // An empty line: the one before ended here, or the head is nothing but this.
    if (lf - 1 === start || (lf - 3 >= start && bytes[lf - 2] === LF)) return lf + 1;
    lf = bytes.indexOf(LF, lf + 1);
  }
  return -1;
}

/** A head, and where in the last chunk what follows it begins. */
interface RequestFound {
  readonly head: RequestHead;
  readonly next: number;
}

/** For a client whose request does not come to its end. */
export const TOO_SLOW: ProxyReply = { status: 408, body: 'The request took too long to arrive.\n' };
const TOO_LARGE: ProxyReply = { status: 431, body: 'The header of the request is too large.\n' };
/** A browser that honours it has room again (Clear Site Data, section 3.1). */
const TOO_MANY_COOKIES: ProxyReply = {
  status: 431,
  headers: [['Clear-Site-Data', '"cookies"']],
  body: 'The header of the request is too large: pages below this domain have set too many cookies. Load it again.\n',
};
const BROKEN: ProxyReply = { status: 400, body: 'The request is not HTTP/1.1: a line does not end in CRLF.\n' };

/** Reads one head after the other. */
export class RequestReader {
  readonly #head: HeadBuffer;

  /** `isOurs`: at which hosts cookies of others are left out of a head that is too large. */
  constructor(isOurs?: (host: string) => boolean) {
    this.#head = new HeadBuffer(MAX_HEAD_BYTES, isOurs && ((text) => withoutForeignCookies(text, isOurs)));
  }

  /** Whether nothing of a head has come. */
  get isEmpty(): boolean {
    return this.#head.isEmpty;
  }

  /** Where a head begins in `chunk`, from `start` on, after empty lines, which are forgiven (RFC 9112, section 2.2). */
  beginOf(chunk: Buffer, start = 0): number {
    let at = start;
    if (this.#head.isEmpty) while (at + 1 < chunk.length && chunk[at] === 13 && chunk[at + 1] === 10) at += 2;
    return at;
  }

  /** Takes `chunk` from `at` on; undefined: the head is not complete. */
  push(chunk: Buffer, at: number): RequestFound | { readonly refuse: ProxyReply } | undefined {
    let found = this.#head.push(chunk, at);
    if (typeof found === 'object' && found.text === EMPTY_LINE) {
      // It came in two pieces, so that `beginOf` did not see it.
      const next = this.beginOf(chunk, found.next);
      found = next === chunk.length ? undefined : this.#head.push(chunk, next);
    }
    if (found === undefined) return undefined;
    if (found === 'too_large') return { refuse: this.#head.isFullOfCookies ? TOO_MANY_COOKIES : TOO_LARGE };
    if (found === 'broken') return { refuse: BROKEN };
    const head = readRequestHead(found.text);
    if ('reason' in head)
      return { refuse: { status: head.status, body: `The request is not valid: ${head.reason}.\n` } };
    return { head, next: found.next };
  }
}
