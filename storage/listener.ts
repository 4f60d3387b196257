import pg from 'pg';
import { errorText } from '../lib/errors.ts';
import { backoffMs, HALF_JITTER } from '../lib/waiting.ts';
import type { Ending } from '../proto/ports/ending.ts';
import type { Log } from '../proto/ports/log.ts';

const PING_MS = 30_000;
const BACKOFF = { minMs: 50, maxMs: 5000 };

type NoticeHandler = (payload: string) => void;

/**
 * The one connection that listens. It opens with the first subscription, comes back by itself, and then calls every
 * handler with '' since notifications sent meanwhile are gone.
 */
export class Listener {
  readonly #config: pg.ClientConfig;
  readonly #log: Log;
  readonly #handlers = new Map<string, Set<NoticeHandler>>();
  #client: pg.Client | undefined;
  #ready = false;
  #last: Promise<unknown> = Promise.resolve();
  #running: Promise<void> | undefined;
  #wake: (() => void) | undefined;
  #closed = false;

  constructor(config: pg.ClientConfig, log: Log) {
    this.#config = config;
    this.#log = log;
  }

  /** `channel` is a plain name. */
  listen(channel: string, handler: NoticeHandler): Ending {
    // The same function may be given twice; each subscription is its own.
    const own: NoticeHandler = (payload) => handler(payload);
    const handlers = this.#handlers.get(channel);
    if (handlers === undefined) {
      this.#handlers.set(channel, new Set([own]));
      if (this.#ready) this.#send(`listen ${channel}`, () => this.#deliver(channel, ''));
    } else {
      handlers.add(own);
      if (this.#ready) queueMicrotask(() => this.#call(own, ''));
    }
    this.#running ??= this.#run();
    return {
      close: async () => {
        const left = this.#handlers.get(channel);
        if (left === undefined || !left.delete(own) || left.size > 0) return;
        this.#handlers.delete(channel);
        if (this.#ready) this.#send(`unlisten ${channel}`);
      },
    };
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#handlers.clear();
    this.#wake?.();
    await this.#running;
  }

  /** Connects, waits for the end of the connection, again and again. */
  async #run(): Promise<void> {
    let failures = 0;
    while (!this.#closed) {
      const client = new pg.Client(this.#config);
      const lost = new Promise<void>((resolve) => {
        client.on('error', () => resolve());
        client.on('end', () => resolve());
      });
      client.on('notification', ({ channel, payload }) => this.#deliver(channel, payload ?? ''));
      try {
        await client.connect();
        if (this.#closed) break;
        this.#client = client;
        this.#ready = true;
        this.#last = Promise.resolve();
        for (const channel of this.#handlers.keys()) this.#send(`listen ${channel}`, () => this.#deliver(channel, ''));
        failures = 0;
        const alive = setInterval(() => this.#send('select 1'), PING_MS);
        alive.unref();
        await this.#until(lost);
        clearInterval(alive);
      } catch (error) {
        this.#log.debug({ error: errorText(error, 'unknown') }, 'cannot listen to the database');
      } finally {
        this.#ready = false;
        this.#client = undefined;
        await client.end().catch(() => undefined);
      }
      if (this.#closed) break;
      failures += 1;
      await this.#pause(backoffMs(failures, BACKOFF, HALF_JITTER));
    }
  }

  /** One after the other: pg wants no second query while one runs. */
  #send(text: string, then?: () => void): void {
    const client = this.#client;
    if (client === undefined) return;
    this.#last = this.#last
      .then(() => client.query(text))
      // When it did not answer it is of no use: end it, and the loop connects anew.
      .then(then, () => (this.#client === client ? client.end() : undefined))
      .catch(() => undefined);
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

  /** Resolves with `event`, or when close() wakes us. */
  async #until(event: Promise<void>): Promise<void> {
    if (this.#closed) return;
    await Promise.race([event, new Promise<void>((resolve) => (this.#wake = resolve))]);
    this.#wake = undefined;
  }

  async #pause(ms: number): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    await this.#until(new Promise<void>((resolve) => (timer = setTimeout(resolve, ms))));
    clearTimeout(timer);
  }
}
