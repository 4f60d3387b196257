/** The lines of a log that a page holds: in blocks, so that what did not change is not drawn again. */
import { type ReadonlySignal, signal } from '@preact/signals';
import type { LogLine } from '../../../../client/index.ts';

/** A line, or a gap in what was heard. */
export interface LogRow {
  /** Counts up. */
  readonly n: number;
  readonly stamp: string;
  readonly text: string;
  /** Of a gap: how long it was, ms. */
  readonly gap?: number;
}

/** A block of rows: it stays the same object as long as its rows do. */
export interface LogBlock {
  readonly first: number;
  readonly rows: readonly LogRow[];
}

/** Whether the row with this number is in the block. */
export function hasRow({ first, rows }: LogBlock, n: number): boolean {
  return n >= first && n <= (rows.at(-1)?.n ?? -1);
}

const BLOCK = 100;
/** Rows that are kept; older ones are dropped by the block. */
const MOST_BLOCKS = 100;
/** Nobody reads faster, and each drawing takes time from who types, ms. */
const BETWEEN_MS = 100;

/** Takes lines as they come, and shows them ten times a second at most. */
export class LogLines {
  readonly #blocks = signal<readonly LogBlock[]>([]);
  #waiting: LogRow[] = [];
  #next = 0;
  #frame: number | undefined;
  #pause: ReturnType<typeof setTimeout> | undefined;
  #shownAt = Number.NEGATIVE_INFINITY;
  #last: string | undefined;

  get blocks(): ReadonlySignal<readonly LogBlock[]> {
    return this.#blocks;
  }

  /** How many lines came since the beginning. */
  get count(): number {
    return this.#next;
  }

  /** The stamp of the last line. */
  get last(): string | undefined {
    return this.#last;
  }

  add({ stamp, text }: LogLine): void {
    this.#last = stamp;
    this.#push({ n: this.#next++, stamp, text });
  }

  addGap(ms: number): void {
    this.#push({ n: this.#next++, stamp: '', text: '', gap: ms });
  }

  /** Drops what waits to be shown. */
  close(): void {
    if (this.#frame !== undefined) cancelAnimationFrame(this.#frame);
    clearTimeout(this.#pause);
    this.#waiting = [];
  }

  #push(row: LogRow): void {
    this.#waiting.push(row);
    // A hidden tab draws nothing: what would not be shown is not kept.
    if (this.#waiting.length >= 2 * BLOCK * MOST_BLOCKS) this.#waiting = this.#waiting.slice(-BLOCK * MOST_BLOCKS);
    if (this.#frame === undefined && this.#pause === undefined) this.#showSoon();
  }

  /** At the next frame, unless there was one just now. */
  #showSoon(): void {
    const left = this.#shownAt + BETWEEN_MS - performance.now();
    if (left <= 0) this.#frame = requestAnimationFrame(() => this.#show());
    else
      this.#pause = setTimeout(() => {
        this.#pause = undefined;
        this.#frame = requestAnimationFrame(() => this.#show());
      }, left);
  }

  #show(): void {
    this.#frame = undefined;
    this.#shownAt = performance.now();
    const blocks = [...this.#blocks.value];
    const waiting = this.#waiting;
    this.#waiting = [];
    for (let at = 0; at < waiting.length; ) {
      const last = blocks.at(-1);
      const begun = last !== undefined && last.rows.length < BLOCK ? last.rows : [];
      const rows = [...begun, ...waiting.slice(at, at + BLOCK - begun.length)];
      at += rows.length - begun.length;
      if (begun.length > 0) blocks.pop();
      blocks.push({ first: rows[0]?.n ?? 0, rows });
    }
    this.#blocks.value = blocks.slice(-MOST_BLOCKS);
  }
}
