/**
 * News of transactions, to all processes on the database. A message tells them at once. Because a message can be lost
 * (a crash between commit and message, a broken connection), each process also reads the rows of news that it has not
 * heard of. So nothing depends on a message but the time.
 */
import { errorText } from '../../lib/errors.ts';
import { InterruptiblePause } from '../../lib/waiting.ts';
import type { Ending } from '../../proto/ports/ending.ts';
import type { Log } from '../../proto/ports/log.ts';
import { StorageError } from '../errors.ts';
import type { Listener } from '../listener.ts';
import type { Queries } from '../queries.ts';
import { BrokerCarrier, type NewsBus, type NewsCarrier, type NewsItem, notifyCarrier } from './carriers.ts';
import { dropOldNews, hasOlderListeners, KEPT_MS, MAX_ITEMS, newsSince, newsSnapshot } from './catch-up.ts';

const CHANNEL_NAME = /^[a-z_][a-z0-9_]{0,62}$/;
/** How often a process reads what it missed: how late news are at worst. */
const LOOK_MS = 2000;
/** After so long without a process that hears only NOTIFY there is none: it would have connected again. */
const QUIET_MS = 60_000;
/** Of so many looks one removes old rows. */
const LOOKS_PER_CLEANING = 30;
/** Ids remembered of each round. Of those forgotten the news come twice. */
const MAX_IDS = 100_000;

type PayloadHandler = (payload: string) => void;

/** How it is timed; for tests. */
export interface NewsTimings {
  readonly lookMs?: number;
  readonly quietMs?: number;
}

interface NewsOptions {
  readonly listener: Listener;
  readonly db: Queries;
  readonly log: Log;
  readonly timings: NewsTimings | undefined;
}

/** The ids of two rounds. */
class RecentIds {
  #now = new Set<string>();
  #before = new Set<string>();

  add(id: string): void {
    if (this.#now.size < MAX_IDS) this.#now.add(id);
  }

  has(id: string): boolean {
    return this.#now.has(id) || this.#before.has(id);
  }

  /** Begins a round: the one before the last is forgotten. */
  turn(): void {
    this.#before = this.#now;
    this.#now = new Set();
  }
}

/** The news of one database handle. */
export class News {
  readonly #options: NewsOptions;
  readonly #notices: NewsCarrier;
  #carrier: NewsCarrier;
  readonly #handlers = new Map<string, Set<PayloadHandler>>();
  readonly #pause = new InterruptiblePause();
  #running: Promise<void> | undefined;
  #begun: Promise<void> | undefined;
  #isClosed = false;
  /** The database at the last look, and when that was. */
  #seen: { readonly snapshot: string; readonly at: number } | undefined;
  /** What came as messages, and what was read before its message came. */
  readonly #heard = new RecentIds();
  readonly #read = new RecentIds();
  #olderSeenAt = performance.now();
  #mustNotify = true;

  constructor(options: NewsOptions) {
    this.#options = options;
    this.#notices = notifyCarrier(options.listener);
    this.#carrier = this.#notices;
  }

  /** From now on news go over `bus`. Before anybody listens. */
  useBus(bus: NewsBus): void {
    this.#carrier = new BrokerCarrier(bus, this.#notices, () => this.#mustNotify);
    this.#begun ??= this.#begin();
  }

  /** As NewsCarrier. */
  prepare(news: readonly NewsItem[]): ReturnType<NewsCarrier['prepare']> {
    return this.#carrier.prepare(news);
  }

  /** As Db.listen. */
  listen(channel: string, handler: PayloadHandler): Ending {
    if (!CHANNEL_NAME.test(channel)) throw new StorageError('internal', `Not a channel name: ${channel}`);
    const own: PayloadHandler = (payload) => handler(payload);
    const handlers = this.#handlers.get(channel) ?? new Set();
    this.#handlers.set(channel, handlers.add(own));
    const carrier = this.#carrier;
    let subscription: Ending | undefined;
    this.#begun ??= this.#begin();
    // What is told after the first look is in a row that the next finds: what has its '' from then on misses nothing.
    const begun = this.#begun.then(() => {
      if (this.#isClosed || !handlers.has(own)) return;
      subscription = carrier.subscribe(channel, (payload, id) => {
        if (this.#isClosed || !handlers.has(own)) return;
        if (id !== undefined && this.#read.has(id)) return;
        if (id !== undefined) this.#heard.add(id);
        own(payload);
      });
    });
    return {
      close: async () => {
        handlers.delete(own);
        if (handlers.size === 0 && this.#handlers.get(channel) === handlers) this.#handlers.delete(channel);
        await begun;
        await subscription?.close();
      },
    };
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#handlers.clear();
    this.#pause.wake();
    await this.#begun;
    await this.#running;
  }

  async #begin(): Promise<void> {
    await this.#look();
    this.#running = this.#run();
  }

  async #run(): Promise<void> {
    let looks = Math.floor(Math.random() * LOOKS_PER_CLEANING);
    while (!this.#isClosed) {
      await this.#pause.wait(this.#options.timings?.lookMs ?? LOOK_MS);
      if (this.#isClosed) return;
      await this.#look();
      looks += 1;
      if (looks % LOOKS_PER_CLEANING === 0) await this.#try(() => dropOldNews(this.#options.db));
    }
  }

  /** Tells what was missed since the last look; it stays to be told while the database is away. */
  async #look(): Promise<void> {
    await this.#try(async () => {
      const { db } = this.#options;
      await this.#lookForOlder();
      const at = performance.now();
      const last = this.#seen;
      if (last === undefined || at - last.at > KEPT_MS / 2) {
        const isFirst = this.#running === undefined;
        this.#seen = { snapshot: await newsSnapshot(db), at };
        if (!isFirst) this.#tellAll();
        return;
      }
      this.#heard.turn();
      this.#read.turn();
      const found = await newsSince(db, last.snapshot, [...this.#handlers.keys()]);
      if (found === undefined) return;
      this.#seen = { snapshot: found.snapshot, at };
      if (found.items.length > MAX_ITEMS) this.#tellAll();
      else
        for (const [channel, payload, id] of found.items) {
          if (this.#heard.has(id)) continue;
          this.#read.add(id);
          this.#deliver(channel, payload);
        }
    });
  }

  /** Versions before this one cannot start on its schema: once they are gone, they do not come back. */
  async #lookForOlder(): Promise<void> {
    if (!this.#mustNotify || this.#carrier === this.#notices) return;
    const now = performance.now();
    if (await hasOlderListeners(this.#options.db)) this.#olderSeenAt = now;
    else if (now - this.#olderSeenAt >= (this.#options.timings?.quietMs ?? QUIET_MS)) this.#mustNotify = false;
  }

  #tellAll(): void {
    for (const channel of this.#handlers.keys()) this.#deliver(channel, '');
  }

  #deliver(channel: string, payload: string): void {
    for (const handler of this.#handlers.get(channel) ?? []) {
      try {
        handler(payload);
      } catch (error) {
        this.#options.log.error({ error: errorText(error, 'unknown') }, 'a notification handler threw');
      }
    }
  }

  async #try(work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      this.#options.log.debug({ error: errorText(error, 'unknown') }, 'cannot read news from the database');
    }
  }
}
