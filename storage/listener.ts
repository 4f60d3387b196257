import type pg from 'pg';
import { errorText } from '../lib/errors.ts';
import { backoffMs, HALF_JITTER, InterruptiblePause } from '../lib/waiting.ts';
import type { Ending } from '../proto/ports/ending.ts';
import type { Log } from '../proto/ports/log.ts';

/** A connection that was silent for so long is tried. */
const PING_MS = 30_000;
const BACKOFF = { minMs: 50, maxMs: 5000 };

type NoticeHandler = (payload: string) => void;

/**
 * Listens on the only connection of a pool, which others use between its statements. It connects with the first
 * subscription, and again after each loss. Then it calls every handler with '', since notifications sent meanwhile are
 * gone.
 */
export class Listener {
  readonly #pool: pg.Pool;
  readonly #log: Log;
  readonly #handlers = new Map<string, Set<NoticeHandler>>();
  /** Channels that `#client` listens to. */
  readonly #listened = new Set<string>();
  /** Ends with a change of what is listened to, and with the loss of the connection. */
  readonly #pause = new InterruptiblePause();
  #client: pg.PoolClient | undefined;
  #usedAt = 0;
  #running: Promise<void> | undefined;
  #closed = false;

  /** `pool` has at most one connection, and never closes it because it is idle. */
  constructor(pool: pg.Pool, log: Log) {
    this.#pool = pool;
    this.#log = log;
    pool.on('connect', (client) => this.#adopt(client));
  }

  /** `channel` is a plain name. */
  listen(channel: string, handler: NoticeHandler): Ending {
    // The same function may be given twice; each subscription is its own.
    const own: NoticeHandler = (payload) => handler(payload);
    const handlers = this.#handlers.get(channel) ?? new Set();
    this.#handlers.set(channel, handlers.add(own));
    if (this.#listened.has(channel)) queueMicrotask(() => this.#call(own, ''));
    else this.#pause.wake();
    this.#running ??= this.#run();
    return {
      close: async () => {
        if (!handlers.delete(own) || handlers.size > 0 || this.#handlers.get(channel) !== handlers) return;
        this.#handlers.delete(channel);
        this.#pause.wake();
      },
    };
  }

  /** Before the pool is ended. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#handlers.clear();
    this.#pause.wake();
    await this.#running;
  }

  async #run(): Promise<void> {
    let failures = 0;
    while (!this.#closed) {
      this.#pause.reset();
      try {
        await this.#reconcile();
        failures = 0;
      } catch (error) {
        this.#log.debug({ error: errorText(error, 'unknown') }, 'cannot listen to the database');
        failures += 1;
      }
      await this.#pause.wait(failures === 0 ? PING_MS : backoffMs(failures, BACKOFF, HALF_JITTER));
    }
  }

  /** Lets the connection listen to what has handlers, and to nothing else. */
  async #reconcile(): Promise<void> {
    const client = await this.#pool.connect();
    let isFine = false;
    try {
      if (performance.now() - this.#usedAt >= PING_MS / 2) await this.#send('select 1', client);
      for (const channel of this.#listened) {
        if (this.#handlers.has(channel)) continue;
        // Whoever comes meanwhile is listened for again.
        this.#listened.delete(channel);
        await this.#send(`unlisten ${channel}`, client);
      }
      for (const channel of this.#handlers.keys()) {
        if (this.#listened.has(channel)) continue;
        await this.#send(`listen ${channel}`, client);
        if (this.#client !== client) return;
        this.#listened.add(channel);
        this.#deliver(channel, '');
      }
      isFine = true;
    } finally {
      if (!isFine) this.#lose(client);
      client.release(!isFine);
    }
  }

  /** From now on this is the connection, whoever has opened it. The one before may take minutes to end. */
  #adopt(client: pg.PoolClient): void {
    const lost = (): void => {
      if (this.#lose(client)) this.#pause.wake();
    };
    client.once('error', lost);
    client.once('end', lost);
    client.on('notification', ({ channel, payload }) => this.#deliver(channel, payload ?? ''));
    this.#client = client;
    this.#listened.clear();
    this.#pause.wake();
  }

  /** Whether it was the connection until now. */
  #lose(client: pg.PoolClient): boolean {
    if (this.#client !== client) return false;
    this.#client = undefined;
    this.#listened.clear();
    return true;
  }

  async #send(text: string, client: pg.PoolClient): Promise<void> {
    await client.query(text);
    this.#usedAt = performance.now();
  }

  #deliver(channel: string, payload: string): void {
    for (const handler of this.#handlers.get(channel) ?? []) this.#call(handler, payload);
  }

  #call(handler: NoticeHandler, payload: string): void {
    try {
      handler(payload);
    } catch (error) {
      this.#log.error({ error: errorText(error, 'unknown') }, 'a notification handler threw');
    }
  }
}
