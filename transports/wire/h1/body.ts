/**
 * The body of a message as its framing cuts it out of the bytes of a connection. Chunks (RFC 9112, section 7.1) are
 * read strictly: sizes are hex digits alone, each line ends in CRLF, extensions and trailers are bounded and dropped.
 */
import type { Framing } from './fields.ts';
import { TOKEN } from './syntax.ts';

/** Longest line of a chunk's size with its extensions, and all trailers together, in bytes. */
const MAX_SIZE_LINE = 256;
const MAX_TRAILERS = 8192;
/** 52 bits of size: more than anybody sends, and exact in a double. */
const MAX_DIGITS = 13;

const CR = 0x0d;
const LF = 0x0a;
const SEMICOLON = 0x3b;
const COLON = 0x3a;

type ChunkState =
  | 'size' // digits of a size
  | 'blank' // a blank after the digits, before an extension
  | 'extension' // up to the CR
  | 'size-lf' // the LF of a size line
  | 'data'
  | 'data-cr'
  | 'data-lf'
  | 'trailer-start' // first byte of a trailer line
  | 'trailer-name' // up to the colon
  | 'trailer' // in a trailer's value
  | 'trailer-lf'
  | 'last-lf' // the LF of the last empty line
  | 'done';

/** What was wrong with a chunked body. */
export class ChunkError extends Error {
  constructor(reason: string) {
    super(`The chunked body is malformed: ${reason}.`);
    this.name = 'ChunkError';
  }
}

/** One body's reader. */
export class ChunkedReader {
  #state: ChunkState = 'size';
  #size = 0;
  #digits = 0;
  #line = 0;
  #trailers = 0;

  /** Whether the last chunk and the trailers have been read. */
  get isDone(): boolean {
    return this.#state === 'done';
  }

  /**
   * Reads `bytes` from `start`; `onData` gets each run of the body (a view of `bytes`). Returns the index after what
   * belongs to the body: less than the length only when it is done. Throws ChunkError.
   */
  read(bytes: Buffer, start: number, onData: (from: number, to: number) => void): number {
    let at = start;
    while (at < bytes.length && this.#state !== 'done') {
      if (this.#state === 'data') {
        const to = Math.min(bytes.length, at + this.#size);
        onData(at, to);
        this.#size -= to - at;
        at = to;
        if (this.#size === 0) this.#state = 'data-cr';
        continue;
      }
      this.#step(bytes[at] ?? 0);
      at++;
    }
    return at;
  }

  #step(byte: number): void {
    switch (this.#state) {
      case 'size': {
        const digit = hexOf(byte);
        if (digit >= 0) {
          if (++this.#digits > MAX_DIGITS) throw new ChunkError('a size of too many digits');
          this.#size = this.#size * 16 + digit;
          return;
        }
        if (this.#digits === 0) throw new ChunkError('a size without digits');
        this.#afterSize(byte);
        return;
      }
      case 'blank':
        this.#afterSize(byte);
        return;
      case 'extension':
        if (byte === CR) this.#state = 'size-lf';
        else if (++this.#line > MAX_SIZE_LINE) throw new ChunkError('an extension that is too long');
        else if (isControl(byte)) throw new ChunkError('a control character in an extension');
        return;
      case 'size-lf':
        expect(byte, LF, 'a size line that does not end in CRLF');
        this.#state = this.#size === 0 ? 'trailer-start' : 'data';
        this.#digits = 0;
        this.#line = 0;
        return;
      case 'data-cr':
        expect(byte, CR, 'data longer than its size');
        this.#state = 'data-lf';
        return;
      case 'data-lf':
        expect(byte, LF, 'data that does not end in CRLF');
        this.#state = 'size';
        return;
      case 'trailer-start':
        if (byte === CR) this.#state = 'last-lf';
        else this.#trailerName(byte);
        return;
      case 'trailer-name':
        if (byte === COLON) this.#state = 'trailer';
        else this.#trailerName(byte);
        return;
      case 'trailer':
        if (byte === CR) this.#state = 'trailer-lf';
        else this.#trailer(byte);
        return;
      case 'trailer-lf':
        expect(byte, LF, 'a trailer line that does not end in CRLF');
        this.#state = 'trailer-start';
        return;
      case 'last-lf':
        expect(byte, LF, 'an end that is not CRLF');
        this.#state = 'done';
        return;
      default:
        return;
    }
  }

  #afterSize(byte: number): void {
    if (byte === CR) {
      // Blanks before CRLF are read differently by different readers.
      if (this.#state === 'blank') throw new ChunkError('a blank after a size');
      this.#state = 'size-lf';
    } else if (byte === SEMICOLON) this.#state = 'extension';
    else if (byte === 0x20 || byte === 0x09) {
      if (++this.#line > MAX_SIZE_LINE) throw new ChunkError('an extension that is too long');
      this.#state = 'blank';
    } else throw new ChunkError('a size that is no hexadecimal number');
  }

  /** What is no field is no trailer either: the next request may have been meant. */
  #trailerName(byte: number): void {
    if (++this.#trailers > MAX_TRAILERS) throw new ChunkError('trailers that are too long');
    if (IS_TOKEN[byte] !== 1) throw new ChunkError('a trailer that is no field');
    this.#state = 'trailer-name';
  }

  #trailer(byte: number): void {
    if (++this.#trailers > MAX_TRAILERS) throw new ChunkError('trailers that are too long');
    if (isControl(byte)) throw new ChunkError('a control character in a trailer');
  }
}

/** Bytes that a name may have (RFC 9110, section 5.6.2). */
const IS_TOKEN = Uint8Array.from({ length: 256 }, (_, byte) => (TOKEN.test(String.fromCharCode(byte)) ? 1 : 0));

function isControl(byte: number): boolean {
  return (byte < 0x20 && byte !== 0x09) || byte === 0x7f;
}

function expect(byte: number, wanted: number, reason: string): void {
  if (byte !== wanted) throw new ChunkError(reason);
}

function hexOf(byte: number): number {
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30;
  if (byte >= 0x61 && byte <= 0x66) return byte - 0x57;
  if (byte >= 0x41 && byte <= 0x46) return byte - 0x37;
  return -1;
}

/** Reads one body. */
export class BodyReader {
  #remaining: number;
  readonly #chunks: ChunkedReader | undefined;

  constructor(framing: Framing) {
    this.#remaining =
      framing.kind === 'length' ? framing.length : framing.kind === 'until_close' ? Number.POSITIVE_INFINITY : 0;
    this.#chunks = framing.kind === 'chunked' ? new ChunkedReader() : undefined;
  }

  /** Whether all of it has been read. */
  get isDone(): boolean {
    return this.#chunks === undefined ? this.#remaining === 0 : this.#chunks.isDone;
  }

  /** Reads from `start`; `onData` gets each run. Returns the index behind what belongs to it. Throws ChunkError. */
  read(bytes: Buffer, start: number, onData: (from: number, to: number) => void): number {
    if (this.#chunks !== undefined) return this.#chunks.read(bytes, start, onData);
    const to = Math.min(bytes.length, start + this.#remaining);
    this.#remaining -= to - start;
    if (to > start) onData(start, to);
    return to;
  }
}
