/** Where a log is scrolled to: its end, until somebody scrolls up; then the same lines stay in sight. */
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { LogLines } from './lines.ts';

/** So near to its end a log is followed, px. */
const AT_END = 24;

/** What is scrolled, and what in it grows. */
interface ScrolledLog {
  readonly box: HTMLElement;
  readonly rows: HTMLElement;
}

/** A row, and how far its top is above that of what is in sight, px. */
interface Anchor {
  readonly n: number;
  readonly above: number;
}

/** The first row of the first block that is in sight, or nearly, and that of the last one. */
interface NearBlocks {
  readonly from: number;
  readonly to: number;
}

const NOTHING_NEAR: NearBlocks = { from: 0, to: -1 };

/**
 * Keeps the end in sight until somebody scrolls up, and counts what came since. With `isMarking` it knows what is near.
 */
export function useScrolling(lines: LogLines, isMarking: boolean) {
  const box = useRef<HTMLDivElement>(null);
  const rows = useRef<HTMLDivElement>(null);
  const isFollowing = useRef(true);
  const anchor = useRef<Anchor | undefined>(undefined);
  const put = useRef(Number.NaN);
  const [seen, setSeen] = useState(0);
  const [near, setNear] = useState(NOTHING_NEAR);
  const blocks = lines.blocks.value;
  const place = (): ScrolledLog | undefined =>
    box.current === null || rows.current === null ? undefined : { box: box.current, rows: rows.current };
  const settle = () => {
    const there = place();
    if (there === undefined) return;
    if (isFollowing.current) there.box.scrollTop = there.box.scrollHeight;
    else if (anchor.current !== undefined) scrollTo(there, anchor.current);
    put.current = there.box.scrollTop;
  };
  const toEnd = () => {
    isFollowing.current = true;
    setSeen(lines.count);
    settle();
  };
  const stop = () => {
    if (isFollowing.current) setSeen(lines.count);
    isFollowing.current = false;
    const there = place();
    if (there !== undefined) anchor.current = anchorOf(there);
  };
  const look = () => {
    const there = place();
    const now = there === undefined || !isMarking ? NOTHING_NEAR : nearIn(there);
    if (now.from !== near.from || now.to !== near.to) setNear(now);
  };
  useLayoutEffect(settle, [blocks]);
  useLayoutEffect(look, [blocks, isMarking]);
  useEffect(() => {
    const there = place();
    if (there === undefined) return;
    // Another width, and blocks that turn out to be taller than they were thought to be.
    const seenSize = new ResizeObserver(settle);
    for (const part of [there.box, there.rows]) seenSize.observe(part);
    return () => seenSize.disconnect();
  }, []);
  return {
    box,
    rows,
    toEnd,
    onScroll() {
      if (box.current === null) return;
      const { scrollHeight, scrollTop, clientHeight } = box.current;
      // What the page did itself, because blocks were drawn, is nobody's wish to be elsewhere.
      if (scrollTop === put.current && !isFollowing.current) return look();
      if (scrollHeight - scrollTop - clientHeight > AT_END) stop();
      else if (!isFollowing.current) toEnd();
      look();
    },
    /** Puts a row into the middle, and keeps it there: blocks around it get their heights only when they are drawn. */
    show(n: number) {
      const there = place();
      const row = rowOf(rows.current, n);
      if (there === undefined || row === null || row === undefined) return;
      stop();
      // The log alone: a browser would scroll whatever is around it, too, sideways as well.
      anchor.current = { n, above: (row.getBoundingClientRect().height - there.box.clientHeight) / 2 };
      settle();
    },
    /** Nobody sees marks in other blocks, of which there may be a hundred. */
    isNear: (first: number) => first >= near.from && first <= near.to,
    fresh: isFollowing.current ? 0 : lines.count - seen,
  };
}

function rowOf(rows: HTMLElement | null, n: number): Element | null | undefined {
  // A query of all rows takes milliseconds.
  const block = [...(rows?.children ?? [])].findLast((one) => firstOf(one) <= n);
  return block?.querySelector(`[data-n="${n}"]`);
}

function firstOf(block: Element | undefined): number {
  return Number(block?.getAttribute('data-first') ?? Number.NaN);
}

function topOf(element: Element): number {
  return element.getBoundingClientRect().top;
}

/** The first row that is in sight. */
function anchorOf({ box, rows }: ScrolledLog): Anchor | undefined {
  const top = topOf(box);
  const inSight = (within: Element) => [...within.children].filter((one) => one.getBoundingClientRect().bottom > top);
  let row: Element | undefined;
  // A block that was not drawn is thought to be taller than its rows are.
  for (const block of inSight(rows)) {
    [row] = inSight(block);
    if (row !== undefined) break;
  }
  const n = row?.getAttribute('data-n');
  return row === undefined || typeof n !== 'string' ? undefined : { n: Number(n), above: top - topOf(row) };
}

/** Of blocks that are at most a screen away. */
function nearIn({ box, rows }: ScrolledLog): NearBlocks {
  const { top, bottom, height } = box.getBoundingClientRect();
  const near = [...rows.children].filter((one) => {
    const rect = one.getBoundingClientRect();
    return rect.bottom > top - height && rect.top < bottom + height;
  });
  return near.length === 0 ? NOTHING_NEAR : { from: firstOf(near[0]), to: firstOf(near.at(-1)) };
}

/** Where the row was that is no more, there is the beginning. */
function scrollTo({ box, rows }: ScrolledLog, { n, above }: Anchor): void {
  const row = rowOf(rows, n);
  const by = row === null || row === undefined ? -box.scrollTop : topOf(row) - topOf(box) + above;
  if (Math.abs(by) >= 1) box.scrollTop += by;
}
