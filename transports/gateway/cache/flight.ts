/**
 * Requests for the same that came while the first is under way: they wait for its response instead of asking the origin
 * for each. Nobody waits longer than WAIT_MS from the first on; whoever is let go asks the origin itself.
 */
import type { CacheAnswer, CachedAnswer } from '../h1/cache-hook.ts';
import { type Collecting, Collector } from './collector.ts';
import type { Entry } from './entry.ts';
import { hasTag, type Question } from './rules.ts';

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
