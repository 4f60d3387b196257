import { EngineError, MAX_LINE_BYTES } from '../../../proto/ports/engine.ts';

/** Most old lines a reader may ask for by number. */
const MAX_TAIL = 100_000;

/** How many old lines are sent; undefined for all. */
export function checkedTail(tail: number): number | undefined {
  if (tail === Number.POSITIVE_INFINITY) return undefined;
  return Number.isNaN(tail) ? 0 : Math.max(0, Math.min(MAX_TAIL, Math.floor(tail)));
}

const NEWLINE = 0x0a;
const STAMP_PATTERN = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)$/;
const LONGEST_STAMP = 40;

/**
 * Makes lines of a log whose entries start with a stamp and a space (`timestamps=1`). An entry without a newline at its
 * end is one of the 16 KiB pieces Docker cuts long lines into: the next entry, without its stamp, goes on where it
 * ended. One assembler reads one output (stdout or stderr). It holds at most one line.
 */
export class LineAssembler {
  #stamp = '';
  #parts: Buffer[] = [];
  #size = 0;
  /** Bytes at the beginning of an entry that may still be its stamp; undefined once that is known. */
  #head: Buffer | undefined = Buffer.alloc(0);
  #open = false;

  /** Tells that the next bytes begin an entry. */
  beginEntry(): void {
    this.#head = Buffer.alloc(0);
  }

  /** Takes bytes and hands every finished line to `emit` as `<stamp> <text>`. */
  push(data: Buffer, emit: (line: string) => void): void {
    let rest = data;
    while (rest.length > 0) {
      if (this.#head !== undefined) {
        rest = this.#takeStamp(this.#head.length === 0 ? rest : Buffer.concat([this.#head, rest]));
        continue;
      }
      const end = rest.indexOf(NEWLINE);
      this.#append(end === -1 ? rest : rest.subarray(0, end), emit);
      if (end === -1) return;
      this.#finish(emit);
      this.beginEntry();
      rest = rest.subarray(end + 1);
    }
  }

  /** Emits what is left when the log ends without a newline. */
  end(emit: (line: string) => void): void {
    const head = this.#head;
    if (head !== undefined && head.length > 0) {
      this.#head = undefined;
      this.#append(head, emit);
    }
    if (this.#open) this.#finish(emit);
  }

  /** Reads the stamp at the beginning of `bytes` and returns what follows it; keeps them while it is not yet whole. */
  #takeStamp(bytes: Buffer): Buffer {
    const space = bytes.subarray(0, LONGEST_STAMP).indexOf(0x20);
    if (space === -1 && bytes.length < LONGEST_STAMP && !bytes.includes(NEWLINE)) {
      this.#head = bytes;
      return Buffer.alloc(0);
    }
    this.#head = undefined;
    const stamp = space === -1 ? '' : bytes.toString('latin1', 0, space);
    const real = STAMP_PATTERN.test(stamp);
    if (!this.#open) this.#stamp = real ? stamp : this.#stamp;
    this.#open = true;
    return real ? bytes.subarray(space + 1) : bytes;
  }

  #append(data: Buffer, emit: (line: string) => void): void {
    this.#open = true;
    let rest = data;
    while (this.#size + rest.length > MAX_LINE_BYTES) {
      const cut = characterStart(rest, MAX_LINE_BYTES - this.#size);
      this.#parts.push(rest.subarray(0, cut));
      rest = rest.subarray(cut);
      this.#flush(emit);
    }
    if (rest.length === 0) return;
    // A copy: a view would keep the whole chunk it came in alive.
    this.#parts.push(Buffer.from(rest));
    this.#size += rest.length;
  }

  #finish(emit: (line: string) => void): void {
    this.#flush(emit);
    this.#open = false;
  }

  #flush(emit: (line: string) => void): void {
    const text = Buffer.concat(this.#parts).toString('utf8');
    this.#parts = [];
    this.#size = 0;
    emit(`${this.#stamp} ${text.endsWith('\r') ? text.slice(0, -1) : text}`);
  }
}

/** The last place at or before `at` where a UTF-8 character begins; `at` itself when there is none near. */
function characterStart(bytes: Buffer, at: number): number {
  for (let back = 0; back < 4 && at - back > 0; back += 1) {
    if (((bytes[at - back] ?? 0) & 0xc0) !== 0x80) return at - back;
  }
  return at;
}

/**
 * Docker's `since` parameter (`seconds.nanoseconds`, inclusive) for "later than this RFC 3339 stamp": one nanosecond
 * after it. Fractions past nanoseconds are cut. Throws EngineError `refused` when the stamp is none.
 */
export function afterStamp(stamp: string): string {
  return movedStamp(stamp, 1);
}

/** Docker's `until` parameter, likewise inclusive, for "earlier than this RFC 3339 stamp". */
export function beforeStamp(stamp: string): string {
  return movedStamp(stamp, -1);
}

/** Of the seconds `nanos` later than a stamp; the fraction counts up, also before 1970. */
function movedStamp(stamp: string, by: 1 | -1): string {
  const match = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,18}))?(Z|[+-]\d\d:\d\d)$/i.exec(stamp);
  const seconds = match === null ? Number.NaN : Date.parse(`${match[1]}${match[3]}`) / 1000;
  if (match === null || !Number.isFinite(seconds)) {
    throw new EngineError('refused', `${JSON.stringify(stamp.slice(0, 64))} is not an RFC 3339 time.`);
  }
  const nanos = Number((match[2] ?? '').padEnd(9, '0').slice(0, 9)) + by;
  const carry = Math.floor(nanos / 1e9);
  return `${seconds + carry}.${String(nanos - carry * 1e9).padStart(9, '0')}`;
}
