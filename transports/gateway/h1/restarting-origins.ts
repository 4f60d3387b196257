/**
 * Requests for containers whose program takes no connections for a moment, as while it starts again: they wait, and are
 * let out no faster than it takes them.
 */
import { CodedError } from '../../../lib/errors.ts';

type UpstreamErrorCode = 'connect_failed' | 'connect_timeout' | 'held_too_long' | 'too_many';

/** The one error that ways to an origin reject with. */
export class UpstreamError extends CodedError<UpstreamErrorCode> {}

export interface HoldLimits {
  /** How long a request waits, and how long ago its origin must have taken a connection, ms. */
  readonly holdMs: number;
  /** Most requests that wait for one origin: past it, the one that has waited longest is refused. */
  readonly maxHeld: number;
  /** Most that wait in all: past it, that of the origin with most of them is refused which has waited longest. */
  readonly maxHeldInAll: number;
  /** Between two attempts to connect, ms. */
  readonly retryMs: number;
}

export const HOLD_LIMITS: HoldLimits = { holdMs: 15_000, maxHeld: 500, maxHeldInAll: 5000, retryMs: 100 };

/** Most requests that are let out together once their origin takes connections. */
const MAX_WIDTH = 64;

/** One that waits. `open`: tries to connect, and rejects with UpstreamError. */
interface HeldRequest<T> {
  readonly open: () => Promise<T>;
  readonly resolve: (connection: T) => void;
  readonly reject: (error: UpstreamError) => void;
  readonly until: number;
  release(): void;
}

interface RestartingOrigin<T> {
  readonly waiting: Set<HeldRequest<T>>;
  /** How many are let out at the next attempt. */
  width: number;
  timer: NodeJS.Timeout | undefined;
}

/** See above. `T`: a connection. */
export class RestartingOrigins<T> {
  /** Origins without a connection that took one lately, and when. */
  readonly lately = new Map<string, number>();
  readonly #limits: HoldLimits;
  readonly #origins = new Map<string, RestartingOrigin<T>>();
  /** How many wait in all. */
  #held = 0;
  /** Hosts whose program was just started, and when. */
  readonly #started = new Map<string, number>();

  constructor(limits: HoldLimits) {
    this.#limits = limits;
  }

  /** The program at this host was just started. */
  expect(host: string): void {
    this.#started.set(host, performance.now());
  }

  /** When that was; -Infinity: nothing is known. */
  startedAt(host: string): number {
    return this.#started.get(host) ?? Number.NEGATIVE_INFINITY;
  }

  /** Forgets what was long ago. */
  expire(): void {
    const before = performance.now() - this.#limits.holdMs;
    for (const known of [this.lately, this.#started]) for (const [key, at] of known) if (at < before) known.delete(key);
  }

  /** Whether requests for it wait, so that others should not pass them. */
  has(key: string): boolean {
    return this.#origins.has(key);
  }

  /**
   * Waits for a connection. Rejects with UpstreamError: `held_too_long` when the time is over or too many wait, what
   * `open` rejects with unless that is `connect_failed`, and `connect_failed` when `signal` gives up.
   */
  hold(key: string, open: () => Promise<T>, signal: AbortSignal): Promise<T> {
    const origin = this.#origins.get(key) ?? { waiting: new Set(), width: 1, timer: undefined };
    this.#origins.set(key, origin);
    return new Promise((resolve, reject) => {
      const onAbort = () =>
        this.#drop(key, origin, held, new UpstreamError('connect_failed', 'Nobody waits any more.'));
      const held: HeldRequest<T> = {
        open,
        resolve,
        reject,
        until: performance.now() + this.#limits.holdMs,
        release: () => signal.removeEventListener('abort', onAbort),
      };
      signal.addEventListener('abort', onAbort, { once: true });
      origin.waiting.add(held);
      this.#held++;
      if (origin.waiting.size > this.#limits.maxHeld) this.#dropOldest(key, origin);
      else if (this.#held > this.#limits.maxHeldInAll) this.#dropOfMost();
      origin.timer ??= setTimeout(() => void this.#attempt(key, origin), this.#limits.retryMs);
    });
  }

  /** Refuses all that wait. */
  close(): void {
    for (const [key, origin] of this.#origins)
      for (const held of origin.waiting) this.#drop(key, origin, held, tooLong(key));
  }

  /** Lets the first out, as many as the origin took at the last attempt and as many more. */
  async #attempt(key: string, origin: RestartingOrigin<T>): Promise<void> {
    origin.timer = undefined;
    const now = performance.now();
    for (const held of origin.waiting) if (held.until <= now) this.#drop(key, origin, held, tooLong(key));
    const first = [...origin.waiting].slice(0, origin.width);
    const taken = await Promise.all(first.map((held) => this.#let(key, origin, held)));
    origin.width = taken.every((isTaken) => isTaken) ? Math.min(2 * origin.width, MAX_WIDTH) : 1;
    if (origin.waiting.size === 0) this.#forget(key, origin);
    else
      origin.timer ??= setTimeout(() => void this.#attempt(key, origin), origin.width > 1 ? 0 : this.#limits.retryMs);
  }

  /** Whether the origin took its connection, or nobody wants it any more. */
  async #let(key: string, origin: RestartingOrigin<T>, held: HeldRequest<T>): Promise<boolean> {
    try {
      const connection = await held.open();
      this.#leave(key, origin, held);
      held.resolve(connection);
      return true;
    } catch (error) {
      if (!origin.waiting.has(held)) return true;
      if (error instanceof UpstreamError && error.code === 'connect_failed') return false;
      this.#drop(key, origin, held, error instanceof UpstreamError ? error : tooLong(key));
      return true;
    }
  }

  #dropOldest(key: string, origin: RestartingOrigin<T>): void {
    const [oldest] = origin.waiting;
    if (oldest !== undefined) this.#drop(key, origin, oldest, tooLong(key));
  }

  /** Nobody keeps the requests of others from waiting. */
  #dropOfMost(): void {
    let most: readonly [string, RestartingOrigin<T>] | undefined;
    for (const each of this.#origins) if (each[1].waiting.size > (most?.[1].waiting.size ?? 0)) most = each;
    if (most !== undefined) this.#dropOldest(...most);
  }

  #drop(key: string, origin: RestartingOrigin<T>, held: HeldRequest<T>, error: UpstreamError): void {
    if (!origin.waiting.has(held)) return;
    this.#leave(key, origin, held);
    held.reject(error);
  }

  #leave(key: string, origin: RestartingOrigin<T>, held: HeldRequest<T>): void {
    held.release();
    origin.waiting.delete(held);
    this.#held--;
    if (origin.waiting.size === 0) this.#forget(key, origin);
  }

  #forget(key: string, origin: RestartingOrigin<T>): void {
    clearTimeout(origin.timer);
    origin.timer = undefined;
    if (this.#origins.get(key) === origin) this.#origins.delete(key);
  }
}

function tooLong(key: string): UpstreamError {
  return new UpstreamError('held_too_long', `${key} has taken no connection for too long.`);
}
