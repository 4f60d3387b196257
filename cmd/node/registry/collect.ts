/**
 * Gives back the space of images that have no name any more. Nobody may write to the store meanwhile: Distribution
 * looks whether a manifest's layers are there, and then writes it. It may be cut at any point: manifests go first, and
 * what a manifest that is still there needs is never touched.
 */
import type { Ending } from '../../../proto/ports/ending.ts';
import type { Log } from '../../../proto/ports/log.ts';
import { lookAfter } from '../../../transports/engines/docker/host/processes.ts';
import type { EndedWrites, RegistryBarrier } from './barrier.ts';
import { type Garbage, garbageOf } from './garbage.ts';
import type { ImageStore } from './image-store.ts';

const MINUTE_MS = 60_000;
const DAY_MS = 24 * 60 * MINUTE_MS;
/** How long all of it may take: what is left then is for the next time. */
const COLLECT_MS = 2 * MINUTE_MS;

/** What a collection works with. */
interface CollectOptions {
  readonly now: number;
  /** What is younger stays: what was pushed lately may get its name soon. Default: a day. */
  readonly keptMs?: number;
  /** Ends it between two files. Default: after two minutes. */
  readonly signal?: AbortSignal;
  /** Asked for what rows of the platform name by digest, which stays. Default: nothing. */
  readonly pinned?: Pinned;
  /** Whose images without a name go whatever their age. Default: nobody's. */
  readonly owner?: string | undefined;
  /** Whether it is only looked at what the owner has: others may need it as well. Default: not. */
  readonly isOwnAlone?: boolean;
}

/** Tells which manifests are named outside the store, as `repository@digits of their SHA-256`. */
export type Pinned = () => Promise<ReadonlySet<string>>;

const NOTHING: Pinned = async () => new Set();

/** What went. */
interface Collected {
  readonly manifests: number;
  readonly blobs: number;
  readonly uploads: number;
  readonly bytes: number;
}

/**
 * Collects. Resolves with what went. Rejects when the store cannot be read or written, when `pinned` does, and when
 * `signal` ends it: nothing went if not all repositories were looked at by then.
 */
export async function collectGarbage(store: ImageStore, options: CollectOptions): Promise<Collected> {
  const { signal = AbortSignal.timeout(COLLECT_MS) } = options;
  const garbage = await lookForGarbage(store, { ...options, signal }).catch((cause: unknown) => {
    throw signal.aborted ? new Error('looking at them took too long: nothing was collected', { cause }) : cause;
  });
  try {
    await store.remove(garbage.manifests, signal);
    // Before what they are made of goes: none may come back when the machine loses power.
    await store.settle(garbage.manifests);
    await store.remove(
      garbage.blobs.map(({ folder }) => folder),
      signal,
    );
    await store.removeUploads(garbage.uploads);
    let bytes = 0;
    for (const blob of garbage.blobs) bytes += blob.bytes;
    const { manifests, blobs, uploads } = garbage;
    return { manifests: manifests.length, blobs: blobs.length, uploads: uploads.length, bytes };
  } catch (cause) {
    throw signal.aborted ? new Error('removing them took too long: the rest is for the next time', { cause }) : cause;
  }
}

/** What a collection would take now. Rejects as it does. */
export async function lookForGarbage(store: ImageStore, options: CollectOptions): Promise<Garbage> {
  const { now, keptMs = DAY_MS, signal = AbortSignal.timeout(COLLECT_MS), pinned = NOTHING, owner } = options;
  const named = await pinned();
  const view = await store.view({ owner: options.isOwnAlone ? owner : undefined, signal });
  return garbageOf(view, { now, keptMs, uploadsKeptMs: DAY_MS, signal, pinned: named, owner });
}

/** When it is collected. */
export interface CollectTimes {
  /** Between the ends of two collections, ms. */
  readonly everyMs: number;
  /** For how long nobody has written then, ms. */
  readonly quietMs: number;
  /** The hour of the day, by the machine's time zone, in which writes under way are waited for instead. */
  readonly quietHour: number;
  /** How long they are waited for, ms. */
  readonly patienceMs: number;
  /** How often it is looked whether it is time, ms. */
  readonly lookMs: number;
  /** In the quiet hour, how long after an attempt that met writes the next one is made, ms. Default: five minutes. */
  readonly againMs?: number;
}

const TIMES: CollectTimes = {
  everyMs: DAY_MS,
  quietMs: MINUTE_MS,
  quietHour: 4,
  patienceMs: 20_000,
  lookMs: 10_000,
};

const AGAIN_MS = 5 * MINUTE_MS;
/** So many attempts in a row a write may meet; from so many on that came to nothing, one meets none. */
const MOST_MET = 3;
const MOST_ATTEMPTS = 6;
const ENDED =
  'The registry ended this push, which went on for long, to give back the space of removed images. Push again in a ' +
  'moment.';

/** Which writes the next attempt ends after so many in a row that met some. */
function endedAfter(attempts: number, log: Log): EndedWrites {
  return {
    // Writes that take turns meet less than three each.
    met: attempts + 1 >= MOST_ATTEMPTS ? 1 : MOST_MET,
    why: ENDED,
    onEnd: ({ owner, repository }) => log.warn({ owner, repository }, 'a write that kept a collection away was ended'),
  };
}

/** What is collected while the registry runs. */
interface KeepCollectedOptions {
  readonly store: ImageStore;
  readonly barrier: RegistryBarrier;
  /** When it was collected last, as `Date.now()` says; undefined: it is not known. */
  readonly last: number | undefined;
  readonly log: Log;
  readonly times?: CollectTimes | undefined;
  readonly keptMs?: number;
  readonly pinned?: Pinned;
}

/**
 * Collects while the registry runs: once a day, when nobody has written for a minute, or in the quiet hour. The barrier
 * is closed only if something can go. In the quiet hour, a write that three attempts met is ended. Ends with `close`,
 * and a collection under way with it.
 */
export function keepCollected(options: KeepCollectedOptions): Ending {
  const { store, barrier, log, times = TIMES, keptMs = DAY_MS, pinned = NOTHING } = options;
  const stop = new AbortController();
  const limit = () => AbortSignal.any([stop.signal, AbortSignal.timeout(COLLECT_MS)]);
  /** In a row, that met writes. */
  let attempts = 0;
  let nextAt = options.last === undefined ? 0 : options.last + times.everyMs;
  const keeper = lookAfter(
    times.lookMs,
    async () => {
      const now = Date.now();
      const isQuiet = barrier.quietMs >= times.quietMs;
      const isQuietHour = new Date(now).getHours() === times.quietHour;
      if (!isQuietHour) attempts = 0;
      if (now < nextAt || !(isQuiet || isQuietHour)) return;
      // Also after one that fails: what cannot be read now is looked at again tomorrow.
      nextAt = now + times.everyMs;
      const { manifests, blobs, uploads } = await lookForGarbage(store, { now, keptMs, signal: limit(), pinned });
      if (manifests.length + blobs.length + uploads.length === 0) return;
      const collected = await barrier.closedFor(
        times.patienceMs,
        () => collectGarbage(store, { now, keptMs, signal: limit(), pinned }),
        isQuietHour ? endedAfter(attempts, log) : undefined,
      );
      attempts = collected === undefined ? attempts + 1 : 0;
      if (collected === undefined) nextAt = Date.now() + Math.min(times.againMs ?? AGAIN_MS, times.everyMs);
      else log.info(collected, 'images without a name were collected');
    },
    (error) => {
      if (!stop.signal.aborted) log.warn({ err: error }, 'images without a name could not be collected');
    },
  );
  return {
    close: () => {
      stop.abort(new Error('the platform ends'));
      return keeper.close();
    },
  };
}
