/**
 * The place of a reader in a log. Engines stamp lines before they write them, each output on its own: of lines of
 * stdout and stderr the later stamp may come first, and the pieces of a very long line share one. A reader could not
 * resume by such stamps without losing or repeating lines, so the stamps sent are made to increase strictly, each at
 * least 1 ns after the one before: the same lines give the same stamps whenever they are read.
 */

/**
 * How much earlier than the reader's place the engine is asked to begin, so that the same stamps are arrived at, ms.
 */
const RUN_UP_MS = 60_000;
/** `2026-01-31T12:00:00.123456789Z`: of one length, so that earlier is smaller. */
const STAMP_LENGTH = 30;
const NANOS_AT = 20;
const SPACE = 0x20;
const Z = 0x5a;
/** Lines that are remembered, and characters of them at most. */
const RECENT_LINES = 256;
const RECENT_CHARACTERS = 65_536;
/** Of a line that comes in pieces: they share a stamp, and may be equal. */
const PIECE_CHARACTERS = 16_384;

/**
 * The lines that came last. Docker Engine 20.10 sends the last lines of a file once more when it begins another one
 * while the log is followed, or only the very last one. Such a line has the stamp and the text of one that came before:
 * what a container prints anew has a stamp of its own, to the nanosecond.
 */
class RecentLines {
  readonly #lines = new Set<string>();
  #characters = 0;
  #latest = '';

  /** Whether the line came before; else it is remembered. */
  isRepeated(line: string, stamp: string): boolean {
    if (line.length >= PIECE_CHARACTERS) return false;
    if (stamp <= this.#latest && this.#lines.has(line)) return true;
    if (stamp > this.#latest) this.#latest = stamp;
    if (!this.#lines.has(line)) this.#characters += line.length;
    this.#lines.add(line);
    for (const oldest of this.#lines) {
      if (this.#lines.size <= RECENT_LINES && this.#characters <= RECENT_CHARACTERS) break;
      this.#lines.delete(oldest);
      this.#characters -= oldest.length;
    }
    return false;
  }
}

/** Stamps the lines of one reader and leaves out those it has. */
export class LogCursor {
  readonly #since: string;
  readonly #recent = new RecentLines();
  #last = '';

  /** `since`: the stamp of the last line the reader has, in RFC 3339. */
  constructor(since?: string) {
    this.#since = since === undefined ? '' : normalStamp(since);
  }

  /** Where the engine has to begin. */
  get engineSince(): string | undefined {
    if (this.#since === '') return undefined;
    return fromSeconds(Date.parse(this.#since) / 1000 - RUN_UP_MS / 1000);
  }

  /** The stamp of the last line that was taken, or of the reader's last if it is later; undefined: there is none. */
  get last(): string | undefined {
    if (this.#last > this.#since) return this.#last;
    return this.#since === '' ? undefined : this.#since;
  }

  /** The line as it is to be sent; undefined when the reader has it. Lines are taken in the engine's order. */
  take(line: string): string | undefined {
    const stamped = line.charCodeAt(STAMP_LENGTH) === SPACE && line.charCodeAt(STAMP_LENGTH - 1) === Z;
    const stamp = stamped ? line.slice(0, STAMP_LENGTH) : '';
    if (stamped && this.#recent.isRepeated(line, stamp)) return undefined;
    if (stamp > this.#last) {
      this.#last = stamp;
      return stamp > this.#since ? line : undefined;
    }
    // A line without a stamp before any other: there is nothing to go by.
    if (this.#last === '') return line;
    this.#last = after(this.#last);
    if (this.#last <= this.#since) return undefined;
    return this.#last + line.slice(stamped ? STAMP_LENGTH : Math.max(0, line.indexOf(' ')));
  }
}

/** A time of RFC 3339 in UTC and with nine digits. */
export function normalStamp(stamp: string): string {
  const fraction = /\.(\d+)/.exec(stamp)?.[1] ?? '';
  return fromSeconds(Math.floor(Date.parse(stamp) / 1000), fraction.padEnd(9, '0').slice(0, 9));
}

/** The stamp one nanosecond later. */
function after(stamp: string): string {
  const nanos = Number(stamp.slice(NANOS_AT, -1)) + 1;
  if (nanos < 1e9) return `${stamp.slice(0, NANOS_AT)}${String(nanos).padStart(9, '0')}Z`;
  return fromSeconds(Math.floor(Date.parse(stamp) / 1000) + 1);
}

/** Unix seconds as a stamp, held within the years that have four digits. */
function fromSeconds(seconds: number, nanos = '000000000'): string {
  const bounded = Math.min(253_402_300_799, Math.max(-62_167_219_200, Math.floor(seconds)));
  return `${new Date(bounded * 1000).toISOString().slice(0, 19)}.${nanos}Z`;
}
