/**
 * Readers of logs. The first reader of a container has a stream of the engine's; when there are several, all of them
 * move to one they share, each when the lines it took last are found there. Nobody waits for a slower one: whoever
 * falls behind what is kept, or does not read at all, goes on later from where it is, as a client that comes back does
 * (cursor.ts).
 *
 *   own --found in the shared one--> shared --fell behind, or it broke--> own
 */
import type { Engine } from '../../../proto/ports/engine.ts';
import { LogCursor } from './cursor.ts';
import { LogFollower } from './follower.ts';

/** What a reader begins with. */
export interface LogStart {
  readonly tail: number;
  /** Stamp of the last line that it has. */
  readonly since?: string | undefined;
}

/** Lines taken at a time from what is shared, and how many tell a place. */
const BATCH = 500;
const RUN = 3;

/** Times, ms. */
interface SharingTimes {
  /** A reader that does not take a batch for this long gives its own stream back. */
  readonly stallMs: number;
  /** When a reader to whom nothing has come asks where the log ends. */
  readonly quietMs: number;
  /** After a shared stream ended, no other is opened for this long. */
  readonly pauseMs: number;
}

const TIMES: SharingTimes = { stallMs: 5000, quietMs: 1000, pauseMs: 5000 };

export type Logs = Pick<Engine, 'logs'>;

interface SharedLog {
  readonly id: string;
  readonly readers: Set<LogReader>;
  follower: LogFollower | undefined;
  /** When the last one ended, ms. */
  endedAt: number;
}

/** One reader. */
interface LogReader {
  cursor: LogCursor;
  /** The last lines it took, as the engine gave them; empty: none yet. `start`: the log had none. */
  run: string[] | 'start';
  /** Ends its own stream. */
  end: () => void;
  wake: () => void;
}

/** All logs that are read in this process. */
export class LogSharing {
  readonly #engine: Logs;
  readonly #times: SharingTimes;
  readonly #logs = new Map<string, SharedLog>();

  constructor(engine: Logs, times: Partial<SharingTimes> = {}) {
    this.#engine = engine;
    this.#times = { ...TIMES, ...times };
  }

  /** Lines in batches, at the reader's pace, until the log ends or `signal` aborts. Throws what the engine does. */
  async *read(containerId: string, start: LogStart, signal: AbortSignal): AsyncGenerator<string[]> {
    const reader: LogReader = { cursor: new LogCursor(start.since), run: [], end: () => {}, wake: () => {} };
    const log = this.#enter(containerId, reader);
    const onAbort = () => {
      reader.end();
      reader.wake();
    };
    signal.addEventListener('abort', onAbort, { once: true });
    try {
      let { tail } = start;
      while (!signal.aborted) {
        const place = yield* this.#own(log, reader, tail, signal);
        if (place === 'over') return;
        if (place !== 'again') {
          const left = yield* shared(place.follower, place.at, reader, signal);
          if (left === 'over') return;
        }
        // All that comes after the last line it has; if it has none yet, after the one that told its place.
        reader.cursor = new LogCursor(reader.cursor.last ?? stampOf(reader.run[0]));
        reader.run = [];
        tail = Number.POSITIVE_INFINITY;
      }
    } finally {
      signal.removeEventListener('abort', onAbort);
      reader.end();
      this.#leave(log, reader);
    }
  }

  #enter(id: string, reader: LogReader): SharedLog {
    let log = this.#logs.get(id);
    if (log === undefined) {
      log = { id, readers: new Set(), follower: undefined, endedAt: Number.NEGATIVE_INFINITY };
      this.#logs.set(id, log);
    }
    log.readers.add(reader);
    if (log.readers.size > 1) for (const one of log.readers) one.wake();
    return log;
  }

  #leave(log: SharedLog, reader: LogReader): void {
    log.readers.delete(reader);
    if (log.readers.size > 0) return;
    log.follower?.close();
    this.#logs.delete(log.id);
  }

  /** The stream that all share, if there are several. */
  #followerOf(log: SharedLog): LogFollower | undefined {
    const known = log.follower;
    if (known !== undefined && known.end === undefined) return known;
    if (known !== undefined) {
      log.follower = undefined;
      log.endedAt = performance.now();
    }
    if (log.readers.size < 2 || performance.now() - log.endedAt < this.#times.pauseMs) return undefined;
    log.follower = new LogFollower(this.#engine, log.id, () => {
      for (const reader of log.readers) reader.wake();
    });
    return log.follower;
  }

  /** Reads a stream of its own, until the reader's place is found in the shared one, or it stops reading. */
  async *#own(
    log: SharedLog,
    reader: LogReader,
    tail: number,
    signal: AbortSignal,
  ): AsyncGenerator<string[], 'over' | 'again' | { readonly follower: LogFollower; readonly at: number }> {
    const controller = new AbortController();
    const since = reader.cursor.engineSince;
    const options = { tail, follow: true, signal: controller.signal, ...(since === undefined ? {} : { since }) };
    const stream = this.#engine.logs(log.id, options)[Symbol.asyncIterator]();
    let isGone = false;
    // Ends it also while it waits for us, not for the engine.
    const close = () => {
      controller.abort();
      void stream.return?.(undefined)?.catch(() => {});
    };
    reader.end = () => {
      isGone = true;
      close();
    };
    let news: { readonly lines: string[] } | { readonly over: true } | { readonly error: unknown } | undefined;
    const ask = () => {
      news = undefined;
      stream.next().then(
        ({ done, value }) => {
          news = done === true ? { over: true } : { lines: value };
          reader.wake();
        },
        (error: unknown) => {
          news = { error };
          reader.wake();
        },
      );
    };
    let quiet: NodeJS.Timeout | undefined;
    try {
      ask();
      for (;;) {
        if (signal.aborted) return 'over';
        const follower = this.#followerOf(log);
        if (follower !== undefined) {
          const at = placeIn(follower, reader);
          if (at !== undefined) return { follower, at };
          follower.want();
          quiet ??= setTimeout(
            () => void this.#findEnd(log, reader, tail, since, controller.signal),
            this.#times.quietMs,
          );
        }
        if (news === undefined) {
          await new Promise<void>((resolve) => {
            reader.wake = resolve;
          });
          continue;
        }
        if ('error' in news) throw news.error;
        if ('over' in news) return 'over';
        const { lines } = news;
        const kept = reader.run === 'start' ? [] : reader.run;
        reader.run = [...kept, ...lines.slice(-RUN)].slice(-RUN);
        const taken = take(reader, lines);
        if (taken.length > 0) {
          const stalled = setTimeout(() => {
            if (log.readers.size > 1) reader.end();
          }, this.#times.stallMs);
          try {
            yield taken;
          } finally {
            clearTimeout(stalled);
          }
          if (isGone) return signal.aborted ? 'over' : 'again';
        }
        ask();
      }
    } finally {
      clearTimeout(quiet);
      reader.end = () => {};
      reader.wake = () => {};
      close();
    }
  }

  /** For a reader to whom nothing has come: the last line of the log tells its place, if that line is not for it. */
  async #findEnd(
    log: SharedLog,
    reader: LogReader,
    tail: number,
    since: string | undefined,
    signal: AbortSignal,
  ): Promise<void> {
    try {
      let end: string | undefined;
      for await (const lines of this.#engine.logs(log.id, { tail: 1, follow: false, signal }))
        end = lines.at(-1) ?? end;
      if (signal.aborted || reader.run.length > 0) return;
      if (end === undefined) reader.run = 'start';
      else if (tail === 0 || (since !== undefined && end < since)) reader.run = [end];
      reader.wake();
    } catch {
      // It stays where it is.
    }
  }
}

/** Reads what is shared from a place on, until it ends, or the place is no longer kept. */
async function* shared(
  follower: LogFollower,
  from: number,
  reader: LogReader,
  signal: AbortSignal,
): AsyncGenerator<string[], 'over' | 'behind'> {
  let at = from;
  try {
    for (;;) {
      if (signal.aborted) return 'over';
      if (at < follower.ring.first) return 'behind';
      const lines = follower.ring.from(at, BATCH);
      if (lines.length > 0) {
        at += lines.length;
        const taken = take(reader, lines);
        if (taken.length > 0) yield taken;
      } else if (follower.end !== undefined) return follower.end === 'over' ? 'over' : 'behind';
      else {
        const news = new Promise<void>((resolve) => {
          reader.wake = resolve;
        });
        follower.want();
        await news;
      }
    }
  } finally {
    reader.wake = () => {};
  }
}

function placeIn({ ring }: LogFollower, { run }: LogReader): number | undefined {
  if (run === 'start') return ring.first === 0 ? 0 : undefined;
  return ring.behind(run);
}

/** The lines that the reader does not have, as they are sent. */
function take({ cursor }: LogReader, lines: readonly string[]): string[] {
  return lines.map((line) => cursor.take(line)).filter((line) => line !== undefined);
}

/** The stamp of a line, if it has one. */
function stampOf(line: string | undefined): string | undefined {
  return /^(\d{4}-\d\d-\d\dT[\d:.]{8,18}Z) /.exec(line ?? '')?.[1];
}
