/** The database's clock, by which all processes agree on times: the clocks of their machines may differ. */
import type { SharedClock } from '../proto/ports/clock.ts';
import { numberRow, type Queries } from './queries.ts';

/** How often it is asked, ms: a machine that was suspended for a while has lost count by then. */
const ASK_EVERY_MS = 15_000;

/** A clock that follows the database's until it is closed. */
interface DatabaseClock extends SharedClock {
  close(): void;
}

/** Follows it. Until the first answer it is the machine's; between answers it goes on by a clock that nobody sets. */
export function databaseClock(db: Queries): DatabaseClock {
  /** What the database's clock says when `performance.now()` is 0. */
  let origin: number | undefined;
  let isClosed = false;
  let timer: NodeJS.Timeout | undefined;
  const ask = async (): Promise<void> => {
    const asked = performance.now();
    try {
      const found = await db.one(numberRow, 'select (extract(epoch from clock_timestamp()) * 1000)::float8');
      if (found !== undefined) origin = found - (asked + performance.now()) / 2;
    } catch {
      // It is away: what it said last holds.
    }
    if (!isClosed) timer = setTimeout(() => void ask(), ASK_EVERY_MS).unref();
  };
  void ask();
  return {
    isShared: true,
    now: () => (origin === undefined ? Date.now() : origin + performance.now()),
    close: () => {
      isClosed = true;
      clearTimeout(timer);
    },
  };
}
