/**
 * Requests for the same that came while the first is under way: they wait for its response instead of asking the origin
 * for each. Nobody waits longer than WAIT_MS from the first on; whoever is let go asks the origin itself.
 */

import type { Field } from '../../wire/h1/fields.ts';
import type { CacheAnswer, CachedAnswer, CacheSink, FailureStatus } from '../h1/exchange-sides.ts';
import type { ResponseHead } from '../h1/response-head.ts';
import {
  fieldsForClients,
  hasTag,
  type Keeping,
  keepingOf,
  MAX_BODY,
  type MoreHarmless,
  type Question,
} from './rules.ts';
import { Entry } from './store.ts';

/** How long requests wait for another's response, ms. */
const WAIT_MS = 5000;
/** How long the first one's client may take no more while others wait, ms. */
const SLOW_MS = 250;

interface Follower {
  readonly question: Question;
  readonly resolve: (answer: CacheAnswer) => void;
}

interface FlightEvents {
  /** Whether what comes is for all clients. */
  begun(isShared: boolean): void;
  /** A response that may be kept. */
  entry(entry: Entry): void;
  /** What is asked for here may not be kept; `isLasting`: not the next time either. */
  passed(isLasting: boolean): void;
  /** No request is to join any more. */
  over(): void;
}

/** One flight. Its leader's sink is `sink`. */
export class Flight {
  readonly #shared: Collecting;
  readonly #events: FlightEvents;
  readonly #timer: NodeJS.Timeout;
  #followers: Follower[] = [];
  #leader: Collector;
  /** Whose alone the response is. */
  #own: string | undefined;
  #slow: NodeJS.Timeout | undefined;
  #isPaused = false;
  #isOver = false;

  constructor(question: Question, shared: Collecting, events: FlightEvents) {
    this.#shared = shared;
    this.#events = events;
    this.#leader = this.#lead(question);
    this.#timer = setTimeout(() => this.#late(), WAIT_MS);
    this.#timer.unref();
  }

  get sink(): Collector {
    return this.#leader;
  }

  /** Waits for the response. */
  join(question: Question): Promise<CacheAnswer> {
    return new Promise((resolve) => {
      this.#followers.push({ question, resolve });
      if (this.#isPaused) this.#watchSlow();
    });
  }

  /** Whether it may bring what answers a question. */
  isFor(question: Question): boolean {
    return this.#own === undefined || this.#own === question.own;
  }

  /** What comes is for one client alone: all others go, to ask for themselves. */
  #keepTo(own: string): void {
    this.#own = own;
    const [stay, leave] = [true, false].map((stays) =>
      this.#followers.filter(({ question }) => (question.own === own) === stays),
    );
    this.#followers = stay ?? [];
    for (const { resolve } of leave ?? []) resolve(ON_ITS_OWN);
  }

  /** Lets everybody go, to ask for themselves. The first one's response is still kept if it may be. */
  release(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    clearTimeout(this.#timer);
    clearTimeout(this.#slow);
    this.#events.over();
    for (const { resolve } of this.#followers.splice(0)) resolve(ON_ITS_OWN);
  }

  #lead(question: Question): Collector {
    const leader: Collector = new Collector(question, this.#shared, {
      begun: (isShared) => {
        this.#events.begun(isShared);
        if (!isShared) this.#keepTo(question.own);
      },
      done: (entry) => {
        this.#events.entry(entry);
        this.#share(entry);
      },
      passed: (isLasting) => {
        this.#events.passed(isLasting);
        this.release();
      },
      // What the gateway could not do for the first it could not do for the others now.
      failed: (status, reason) => {
        const followers = this.#followers.splice(0);
        this.release();
        for (const { resolve } of followers) resolve({ kind: 'fail', status, reason });
      },
      aborted: () => this.#next(),
      paused: (isPaused) => {
        this.#isPaused = isPaused;
        if (isPaused) this.#watchSlow();
        else this.#watchNoMore();
      },
    });
    return leader;
  }

  #share(entry: Entry): void {
    const followers = this.#followers.splice(0);
    this.release();
    const now = this.#shared.clock();
    for (const { question, resolve } of followers)
      resolve(answers(question, entry, now) ? { kind: 'hit', answer: given(question, entry) } : ON_ITS_OWN);
  }

  /** The first is gone without a response: the next that waits takes its place. */
  #next(): void {
    this.#watchNoMore();
    this.#isPaused = false;
    const next = this.#isOver ? undefined : this.#followers.shift();
    if (next === undefined) {
      this.release();
      return;
    }
    this.#leader = this.#lead(next.question);
    next.resolve({ kind: 'forward', sink: this.#leader });
  }

  #late(): void {
    this.#events.passed(true);
    this.release();
  }

  /** A client that reads slowly must not hold up the others. */
  #watchSlow(): void {
    if (this.#isOver || this.#followers.length === 0 || this.#slow !== undefined) return;
    this.#slow = setTimeout(() => {
      this.#slow = undefined;
      this.#leader.leave();
      this.#next();
    }, SLOW_MS);
    this.#slow.unref();
  }

  #watchNoMore(): void {
    clearTimeout(this.#slow);
    this.#slow = undefined;
  }
}

/** Whether an entry may answer a question at `now` (monotonic ms). */
export function answers(question: Question, entry: Entry, now: number): boolean {
  return (
    (entry.variant === question.variant || entry.variant === question.own) &&
    entry.expiresAt > now &&
    entry.expiresAt - now >= 1000 * question.minFresh &&
    entry.ageAt(now) <= question.maxAge &&
    (entry.isPublic || !question.isPersonal)
  );
}

/** What is sent of an entry: nothing of its body to whoever has it. */
export function given({ ifNoneMatch }: Question, entry: Entry): CachedAnswer {
  return ifNoneMatch !== undefined && hasTag(ifNoneMatch, entry.tag) ? entry.notModified() : entry;
}

const ON_ITS_OWN: CacheAnswer = { kind: 'forward' };

/** What becomes of it. One call, once. */
interface CollectorEvents {
  /** It may be kept, if it comes whole. `isShared`: for other clients, too. */
  begun(isShared: boolean): void;
  /** It came whole; `entry` may be kept. */
  done(entry: Entry): void;
  /** It may not be kept, or is not. `isLasting`: neither will the next. */
  passed(isLasting: boolean): void;
  failed(status: FailureStatus, reason: string): void;
  aborted(): void;
  /** Its client stopped taking more, or goes on. */
  paused(isPaused: boolean): void;
}

/** What all collectors share. */
export interface Collecting {
  /** Reserves memory; false when too much is in use. */
  reserve(host: string, bytes: number): boolean;
  free(host: string, bytes: number): void;
  clock(): number;
  wall(): number;
  readonly more: MoreHarmless | undefined;
}

const FIRST = 16_384;

/** One response's collector. */
export class Collector implements CacheSink {
  readonly #question: Question;
  readonly #shared: Collecting;
  readonly #events: CollectorEvents;
  readonly #asked: number;
  #began = 0;
  #fields: Field[] = [];
  #reason = '';
  #keeping: Keeping | undefined;
  #body: Buffer | undefined;
  #length = 0;
  #isOver = false;

  constructor(question: Question, shared: Collecting, events: CollectorEvents) {
    this.#question = question;
    this.#shared = shared;
    this.#events = events;
    this.#asked = shared.clock();
  }

  begin(response: ResponseHead): ResponseHead {
    if (this.#isOver) return response;
    const now = this.#shared.clock();
    const wallMs = this.#shared.wall();
    const keeping = keepingOf(this.#question, response, { wallMs, delayMs: now - this.#asked }, this.#shared.more);
    if (typeof keeping === 'string') {
      this.giveUp(true);
      return response;
    }
    const { framing } = response;
    if (!this.#grow(framing.kind === 'length' ? framing.length : FIRST)) return response;
    this.#keeping = keeping;
    this.#began = now;
    this.#reason = response.reason;
    this.#fields = fieldsForClients(response, wallMs);
    this.#events.begun(keeping.isShared);
    return { ...response, fields: this.#fields };
  }

  data(bytes: Buffer): void {
    if (this.#isOver || this.#body === undefined) return;
    const length = this.#length + bytes.length;
    if (length > MAX_BODY) {
      this.giveUp(true);
      return;
    }
    if (length > this.#body.length && !this.#grow(Math.min(MAX_BODY, 2 * length))) return;
    bytes.copy(this.#body, this.#length);
    this.#length = length;
  }

  paused(): void {
    if (!this.#isOver) this.#events.paused(true);
  }

  resumed(): void {
    if (!this.#isOver) this.#events.paused(false);
  }

  end(): void {
    const body = this.#body;
    const keeping = this.#keeping;
    if (this.#isOver || body === undefined || keeping === undefined) return;
    const { host, path } = this.#question;
    const { isShared, ...times } = keeping;
    const variant = isShared ? this.#question.variant : this.#question.own;
    const whole = body.length === this.#length ? body : copyOf(body.subarray(0, this.#length));
    const entry = new Entry(
      {
        host,
        path,
        variant,
        reason: this.#reason,
        fields: this.#fields,
        body: whole,
        now: this.#began,
        ...times,
      },
      () => this.#shared.clock(),
    );
    this.#stop();
    if (entry.expiresAt > this.#shared.clock()) this.#events.done(entry);
    else this.#events.passed(false);
  }

  fail(status: FailureStatus, reason: string): void {
    if (this.#isOver) return;
    this.#stop();
    this.#events.failed(status, reason);
  }

  abort(): void {
    if (this.#isOver) return;
    this.#stop();
    this.#events.aborted();
  }

  /** Collects no more; the response goes on to its client. */
  giveUp(isLasting: boolean): void {
    if (this.#isOver) return;
    this.#stop();
    this.#events.passed(isLasting);
  }

  /** Collects no more, and tells nobody. */
  leave(): void {
    if (!this.#isOver) this.#stop();
  }

  #stop(): void {
    this.#isOver = true;
    if (this.#body !== undefined) this.#shared.free(this.#question.host, this.#body.length);
    this.#body = undefined;
    this.#fields = [];
  }

  #grow(size: number): boolean {
    const before = this.#body?.length ?? 0;
    if (!this.#shared.reserve(this.#question.host, size - before)) {
      this.giveUp(false);
      return false;
    }
    const larger = Buffer.allocUnsafeSlow(size);
    this.#body?.copy(larger, 0, 0, this.#length);
    this.#body = larger;
    return true;
  }
}

function copyOf(bytes: Buffer): Buffer {
  const copy = Buffer.allocUnsafeSlow(bytes.length);
  bytes.copy(copy);
  return copy;
}
