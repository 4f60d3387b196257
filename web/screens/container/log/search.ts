/** What is looked for in a log. Each block is searched once for the same words: only the last one changes. */
import type { LogBlock } from './lines.ts';
import { plainText } from './sgr.ts';

interface Hits {
  readonly words: string;
  /** Numbers of the rows. */
  readonly rows: readonly number[];
}

const known = new WeakMap<LogBlock, Hits>();
const NONE: readonly number[] = [];

/** The numbers of the rows that hold the words, whatever their case; none for no words. */
export function rowsWith(block: LogBlock, words: string): readonly number[] {
  if (words === '') return NONE;
  const before = known.get(block);
  if (before?.words === words) return before.rows;
  const wanted = words.toLowerCase();
  // A row without the longer words may have the shorter ones, not the other way round.
  const isNarrower = before !== undefined && before.words !== '' && wanted.includes(before.words.toLowerCase());
  const isThere = ({ text }: { readonly text: string }) => plainText(text).toLowerCase().includes(wanted);
  const candidates = isNarrower ? new Set(before.rows) : undefined;
  const rows = block.rows
    .filter((row) => (candidates === undefined || candidates.has(row.n)) && isThere(row))
    .map(({ n }) => n);
  known.set(block, { words, rows });
  return rows;
}
