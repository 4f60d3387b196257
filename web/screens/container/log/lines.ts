/** The lines of a log that a page holds: in blocks, so that what did not change is not drawn again. */
import { type ReadonlySignal, signal } from '@preact/signals';
import type { LogLine } from '../../../../client/index.ts';
import { plainText } from './sgr.ts';

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

const BLOCK = 100;
/** Rows that are kept; older ones are dropped by the block. */
const MOST_BLOCKS = 100;

/** Takes lines as they come, and shows them once a frame. */
export class LogLines {
  readonly #blocks = signal<readonly LogBlock[]>([]);
  #waiting: LogRow[] = [];
  #next = 0;
  #frame: number | undefined;
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
    this.#waiting = [];
  }

  #push(row: LogRow): void {
    this.#waiting.push(row);
    // A hidden tab draws nothing: what would not be shown is not kept.
    if (this.#waiting.length >= 2 * BLOCK * MOST_BLOCKS) this.#waiting = this.#waiting.slice(-BLOCK * MOST_BLOCKS);
    this.#frame ??= requestAnimationFrame(() => this.#show());
  }

  #show(): void {
    this.#frame = undefined;
    const blocks = [...this.#blocks.value];
    for (const row of this.#waiting) {
      const last = blocks.at(-1);
      if (last === undefined || last.rows.length >= BLOCK) blocks.push({ first: row.n, rows: [row] });
      else blocks[blocks.length - 1] = { first: last.first, rows: [...last.rows, row] };
    }
    this.#waiting = [];
    this.#blocks.value = blocks.slice(-MOST_BLOCKS);
  }
}

/** The numbers of the rows that hold the words, whatever their case. */
export function rowsWith(blocks: readonly LogBlock[], words: string): readonly number[] {
  const wanted = words.toLowerCase();
  if (wanted === '') return [];
  return blocks.flatMap(({ rows }) =>
    rows.filter(({ text }) => plainText(text).toLowerCase().includes(wanted)).map(({ n }) => n),
  );
}
