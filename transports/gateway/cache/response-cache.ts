/** The gateway's response cache, as exchanges see it. docs/reference/gateway-cache.md says what it keeps. */
import { LRUCache } from 'lru-cache';
import { pathOf } from '../../../proto/gateway/routes.ts';
import type { UpstreamAddress } from '../../../proto/gateway/traffic.ts';
import {
  type CacheAnswer,
  type CachedAnswer,
  type CacheHook,
  type CacheRequest,
  type CacheSink,
  FORWARD,
} from '../h1/cache-hook.ts';
import type { ResponseHead } from '../h1/response-head.ts';
import { FORWARDED } from './cache-status.ts';
import { Changers } from './changers.ts';
import { type Collecting, Collector } from './collector.ts';
import type { Entry } from './entry.ts';
import { answers, Flight, given } from './flight.ts';
import { counterOf } from './hash.ts';
import { isMutating, pathsNamedBy, type Question, questionOf } from './rules.ts';
import { CacheStore, type StoreOptions } from './store.ts';

/** Interface section 4.5. */
const CLEANUP_MS = 300_000;
/** Bytes of responses that are being collected: in all, and for one host. */
const COLLECTING = 64_000_000;
const COLLECTING_PER_HOST = 16_000_000;
/** For what was not kept, nobody waits the next time: how many of these are remembered, and how long, ms. */
const PASSES = 10_000;
const PASS_MS = 30_000;
/** How long a question counts as one whose answers declare themselves fresh, ms. */
const DECLARED_MS = 300_000;
/** Of what was not kept, one response in so long is looked at, to see whether the next may be; ms. */
const LOOK_MS = 1000;
/** Mutations are counted by path, in so many counters. Paths that share one lose a chance to be kept, no more. */
const COUNTERS = 4096;

/** Requests that are forwarded, and of which nothing is kept. */
const BYPASS: CacheAnswer = { kind: 'forward', says: FORWARDED.bypass };
const OTHER_METHOD: CacheAnswer = { kind: 'forward', says: FORWARDED.method };
const MISS: CacheAnswer = { kind: 'forward', says: FORWARDED.miss };
const ANEW: CacheAnswer = { kind: 'forward', says: FORWARDED.request };

export interface ResponseCacheOptions extends StoreOptions {
  /** Names of request fields that do not choose what a request gets, beside the known ones (rules.ts). */
  readonly harmlessFields?: readonly string[];
  /** Origins that answer all clients alike by the operator's word, whatever their answers say; `all`: every one. */
  readonly sharedOrigins?: readonly UpstreamAddress[] | 'all';
  /** Monotonic ms; for tests. */
  readonly clock?: () => number;
  /** Unix ms; for tests. */
  readonly wall?: () => number;
}

/** What it has done, and holds. Counts since the start. */
interface CacheNumbers {
  readonly hits: number;
  readonly misses: number;
  /** Requests that waited for another's response. */
  readonly waited: number;
  /** Requests that have nothing to do with the cache. */
  readonly bypasses: number;
  readonly stored: number;
  /** Entries that made room for others. */
  readonly evictions: number;
  /** Bytes of bodies sent from memory. */
  readonly bytesSent: number;
  readonly bytes: number;
  readonly entries: number;
}

/** The cache of one process. `close` ends its timer. */
export class ResponseCache implements CacheHook {
  readonly #store: CacheStore;
  readonly #shared: Collecting;
  readonly #flights = new Map<
    string,
    { readonly flight: Flight; readonly mutations: number; readonly askedAt: number }
  >();
  /** When the response was last looked at, by the question's key. */
  readonly #passes: LRUCache<string, number>;
  /** Questions whose answers were for one client alone: each client's is then a question of its own. */
  readonly #apart: LRUCache<string, true>;
  /** Explicit questions whose answers declared themselves fresh: only for these does a request wait for another's. */
  readonly #declared: LRUCache<string, true>;
  readonly #changers = new Changers();
  readonly #isForAll: (origin: UpstreamAddress) => boolean;
  readonly #mutations = new Uint32Array(COUNTERS);
  /** How often origins were forgotten; those that share a counter are forgotten together. */
  readonly #forgotten = new Uint32Array(COUNTERS);
  readonly #collecting = new Map<string, number>();
  readonly #timer: NodeJS.Timeout;
  #collectingBytes = 0;
  #isClosed = false;
  #hits = 0;
  #misses = 0;
  #waited = 0;
  #bypasses = 0;
  #stored = 0;
  #bytesSent = 0;

  constructor(options: ResponseCacheOptions = {}) {
    const { harmlessFields, clock = () => performance.now(), wall = () => Date.now() } = options;
    this.#store = new CacheStore(options);
    this.#passes = new LRUCache({ max: PASSES, ttl: PASS_MS });
    this.#apart = new LRUCache({ max: PASSES, ttl: PASS_MS });
    this.#declared = new LRUCache({ max: PASSES, ttl: DECLARED_MS });
    const { sharedOrigins = [] } = options;
    const forAll = new Set(sharedOrigins === 'all' ? [] : sharedOrigins.map(({ host, port }) => `${host}:${port}`));
    this.#isForAll =
      sharedOrigins === 'all' ? () => true : ({ host, port }) => forAll.size > 0 && forAll.has(`${host}:${port}`);
    this.#shared = {
      clock,
      wall,
      more: harmlessFields === undefined ? undefined : new Set(harmlessFields),
      reserve: (host, bytes) => this.#reserve(host, bytes),
      free: (host, bytes) => this.#reserve(host, -bytes),
    };
    this.#timer = setInterval(() => this.#cleanUp(), CLEANUP_MS);
    this.#timer.unref();
  }

  ask(request: CacheRequest): CacheAnswer | Promise<CacheAnswer> {
    const { head } = request;
    // Also where nothing is kept: another way in to the same program may keep something.
    if (isMutating(head.method)) return { kind: 'forward', sink: this.#evicting(request), says: FORWARDED.method };
    if (request.mode === 'off' || this.#isClosed) return this.#bypass(FORWARD);
    const question = questionOf(request, this.#shared.more, this.#isForAll(request.origin));
    if (question === undefined) return this.#bypass(head.method === 'GET' ? BYPASS : OTHER_METHOD);
    const now = this.#shared.clock();
    const changedAt = question.isExplicit ? this.#changers.changedAt(question) : Number.NEGATIVE_INFINITY;
    const found = question.reads ? this.#find(question, now, changedAt) : undefined;
    if (found !== undefined) return this.#hit(given(question, found));
    // What the origin makes of a condition is for whoever asked.
    if (question.ifNoneMatch !== undefined) return this.#bypass(question.reads ? MISS : ANEW);
    this.#misses++;
    return this.#miss(question, now, changedAt);
  }

  numbers(): CacheNumbers {
    return {
      hits: this.#hits,
      misses: this.#misses,
      waited: this.#waited,
      bypasses: this.#bypasses,
      stored: this.#stored,
      evictions: this.#store.evictions,
      bytesSent: this.#bytesSent,
      bytes: this.#store.bytes + this.#collectingBytes,
      entries: this.#store.entries,
    };
  }

  /** Forgets what an origin answered up to now, at any of its ports: another program answers there from now on. */
  forget(origin: string): void {
    const counter = counterOf(origin, '', COUNTERS);
    this.#forgotten[counter] = (this.#forgotten[counter] ?? 0) + 1;
  }

  /** Forgets everything and takes nothing more. */
  close(): void {
    this.#isClosed = true;
    clearInterval(this.#timer);
    for (const { flight } of [...this.#flights.values()]) flight.release();
    this.#store.clear();
  }

  #bypass(answer: CacheAnswer): CacheAnswer {
    this.#bypasses++;
    return answer;
  }

  /** What answers a question. `changedAt`: what was asked for before is not given to whoever changed something then. */
  #find(question: Question, now: number, changedAt: number): Entry | undefined {
    for (const variant of [question.variant, question.own]) {
      const found = this.#store.get(question.host, question.path, variant, now);
      if (found === undefined || found.generation !== this.#generationOf(question)) continue;
      if (found.askedAt <= changedAt) continue;
      if (answers(question, found, now)) return found;
    }
    return undefined;
  }

  #generationOf({ origin }: Question): number {
    return this.#forgotten[counterOf(origin, '', COUNTERS)] ?? 0;
  }

  #hit(answer: CachedAnswer): CacheAnswer {
    this.#hits++;
    this.#bytesSent += answer.length;
    return { kind: 'hit', answer };
  }

  #miss(question: Question, now: number, changedAt: number): CacheAnswer | Promise<CacheAnswer> {
    const counter = counterOf(question.host, question.path, COUNTERS);
    const generation = this.#generationOf(question);
    const changes = () => (this.#mutations[counter] ?? 0) + this.#generationOf(question);
    const mutations = changes();
    const who = `${question.isPersonal ? 'p' : ''} ${question.host}${question.path}\n`;
    const all = `${who}${question.variant}`;
    const key = this.#apart.has(all) ? `${who}${question.own}` : all;
    const begun = (isShared: boolean) => {
      if (question.isExplicit) this.#declared.set(key, true);
      if (isShared) this.#apart.delete(all);
      else this.#apart.set(all, true);
    };
    const keep = (entry: Entry) => {
      this.#passes.delete(key);
      // What changed meanwhile may not show in it.
      if (this.#isClosed || changes() !== mutations) return;
      entry.generation = generation;
      if (this.#store.set(entry)) this.#stored++;
    };
    const passed = (isLasting: boolean) => {
      if (question.isExplicit) this.#declared.delete(key);
      if (isLasting) this.#passes.set(key, this.#shared.clock());
    };
    const current = this.#flights.get(key);
    const mayJoin = question.reads && current?.mutations === mutations && current.askedAt > changedAt;
    if (mayJoin && current.flight.isFor(question)) {
      this.#waited++;
      return current.flight.join(question).then((answer) => {
        if (answer.kind === 'hit') {
          this.#hits++;
          this.#misses--;
          this.#bytesSent += answer.answer.length;
        }
        return answer;
      });
    }
    const lookedAt = question.reads ? this.#passes.get(key) : undefined;
    if (lookedAt !== undefined && this.#shared.clock() - lookedAt < LOOK_MS) return MISS;
    const isAlone = question.isExplicit && !this.#declared.has(key);
    if (!question.reads || lookedAt !== undefined || isAlone) {
      const nothing = () => {};
      return {
        kind: 'forward',
        sink: new Collector(question, this.#shared, {
          begun,
          done: keep,
          passed,
          failed: nothing,
          aborted: nothing,
          paused: nothing,
        }),
      };
    }
    const flight = new Flight(question, this.#shared, {
      begun,
      entry: keep,
      passed,
      over: () => {
        if (this.#flights.get(key)?.flight === flight) this.#flights.delete(key);
      },
    });
    this.#flights.set(key, { flight, mutations, askedAt: now });
    return { kind: 'forward', sink: flight.sink };
  }

  /**
   * Evicts at once, and once more when the origin has answered: until then it may have given
   * out what was before. Then also what the answer names, on the same host alone.
   */
  #evicting({ head, origin, address }: CacheRequest): CacheSink {
    const path = pathOf(head.target);
    const evict = () => {
      this.#evict(head.host, path);
      this.#changers.note({ origin: origin.host, address }, this.#shared.clock());
    };
    evict();
    return new Evicting((response) => {
      evict();
      if (response === undefined) return;
      for (const named of pathsNamedBy(head, response)) this.#evict(head.host, named);
    });
  }

  #evict(host: string, path: string): void {
    const counter = counterOf(host, path, COUNTERS);
    this.#mutations[counter] = (this.#mutations[counter] ?? 0) + 1;
    this.#store.delete(host, path);
  }

  #reserve(host: string, bytes: number): boolean {
    const ofHost = (this.#collecting.get(host) ?? 0) + bytes;
    if (bytes > 0 && (this.#collectingBytes + bytes > COLLECTING || ofHost > COLLECTING_PER_HOST)) return false;
    this.#collectingBytes += bytes;
    if (ofHost === 0) this.#collecting.delete(host);
    else this.#collecting.set(host, ofHost);
    return true;
  }

  #cleanUp(): void {
    const steps = this.#store.sweep(this.#shared.clock);
    const step = () => {
      if (!this.#isClosed && steps.next().done !== true) setImmediate(step).unref();
    };
    step();
  }
}

/** Evicts when a response begins, whatever it is, and when it is over: what was asked may be done by then only. */
class Evicting implements CacheSink {
  readonly #evict: (response?: ResponseHead) => void;

  constructor(evict: (response?: ResponseHead) => void) {
    this.#evict = evict;
  }

  begin(response: ResponseHead): ResponseHead {
    this.#evict(response);
    return response;
  }

  data(): void {}
  paused(): void {}
  resumed(): void {}

  end(): void {
    this.#evict();
  }

  /** The origin may have done what was asked before it was lost. */
  fail(): void {
    this.#evict();
  }

  abort(): void {
    this.#evict();
  }
}
