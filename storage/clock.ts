/** The database's clock, by which all processes agree on times: the clocks of their machines may differ. */
import { z } from 'zod';
import type { SharedClock } from '../proto/ports/clock.ts';
import type { Queries } from './queries.ts';
import { oneValue } from './rows.ts';

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
      const ms = await oneValue(db, z.number(), 'select (extract(epoch from clock_timestamp()) * 1000)::float8');
      if (ms !== undefined) origin = ms - (asked + performance.now()) / 2;
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
