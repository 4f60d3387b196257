import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import type { z } from 'zod';
import { backoffMs, FULL_JITTER } from '../lib/waiting.ts';
import type { Ending } from '../proto/ports/ending.ts';
import type { Log } from '../proto/ports/log.ts';
import { ConnectionQueries, type DatabaseSession } from './connection.ts';
import { isStalePlan, StorageError, toStorageError } from './errors.ts';
import { Listener } from './listener.ts';
import type { NewsBus } from './news/carriers.ts';
import { READS_NEWS } from './news/catch-up.ts';
import { News, type NewsTimings } from './news/news.ts';
import type { DirectQueries, Queries, Tx, TxOptions } from './queries.ts';
import { Statements, valueParsers } from './statements.ts';

export { isConstraint, StorageError, type StorageErrorCode } from './errors.ts';
export type { Queries, Tx, TxOptions } from './queries.ts';

/**
 * Where the server is: a URL, or the unix socket of a server of our own. With `direct`, the URL is that of a pooler in
 * transaction mode, and `direct` that of the server itself: for what needs a connection to itself.
 */
export type DbConnection =
  | { readonly connectionString: string; readonly direct?: string | undefined }
  | { readonly socketDir: string; readonly port?: number; readonly user: string; readonly database: string };

/**
 * Of the connection past the pooler. It renews the lease of the process: a beat that waits behind other work is a lost
 * lease, so a statement gives up before the lease is over. Listening ends with a connection, so it stays open.
 */
const DIRECT = { max: 1, idleTimeoutMillis: 0, ...timeouts(2000, 2000), statement_timeout: 2000 };

/** Bounds of waiting, in milliseconds. */
interface DbLimits {
  /** For a free connection of the pool, or for a new one to open. Default 5,000. */
  readonly connectMs?: number;
  /** For one statement. Default 30,000. */
  readonly statementMs?: number;
  /** Between two statements of one transaction. Default 30,000. */
  readonly idleInTransactionMs?: number;
}

/** The same server without the pooler in front. */
export function directly(connection: DbConnection): DbConnection {
  if (!('direct' in connection) || connection.direct === undefined) return connection;
  return { connectionString: connection.direct };
}

interface DbOptions {
  readonly log: Log;
  /** Most connections, besides the one of `direct` and `listen`. Default 10. */
  readonly max?: number;
  /** What the server shows for us: `troupe/<name> reads news`. */
  readonly name: string;
  readonly limits?: DbLimits;
  readonly news?: NewsTimings;
}

const MAX_ATTEMPTS = 6;
/** Between the attempts. */
const BACKOFF = { minMs: 10, maxMs: 10 * 2 ** MAX_ATTEMPTS };
const MAX_WAITING = 5000;

/** The database of a process: what everybody sees of it. */
export type Db = Pick<PoolDb, keyof PoolDb>;

/** Opens a pool, which connects at its first use: an absent server is `unavailable` then, and is tried again after. */
export function openDb(connection: DbConnection, options: DbOptions): Db {
  return new PoolDb(connection, options);
}

/** Connections that work shares. */
interface SessionPool {
  readonly pool: pg.Pool;
  readonly session: DatabaseSession;
}

class PoolDb implements Queries {
  /**
   * Statements of at most 2 seconds on a connection of their own, past any pooler. It opens at the first use, and they
   * share it with `listen` alone.
   */
  readonly direct: DirectQueries;
  readonly #own: SessionPool;
  readonly #shared: SessionPool;
  readonly #listener: Listener;
  readonly #news: News;
  readonly #running = new Set<Promise<unknown>>();
  #closing: Promise<void> | undefined;

  constructor(connection: DbConnection, { log, max = 10, name, limits = {}, news }: DbOptions) {
    const { connectMs = 5000, statementMs = 30_000, idleInTransactionMs: idleMs = 30_000 } = limits;
    const isPooled = directly(connection) !== connection;
    const common = {
      application_name: `troupe/${name}`.slice(0, 63 - READS_NEWS.length) + READS_NEWS,
      types: valueParsers,
      keepAlive: true,
    };
    const bounds = { statement_timeout: statementMs, idle_in_transaction_session_timeout: idleMs };
    const ownPool = openPool({ ...common, ...clientAddress(directly(connection)), ...DIRECT }, log);
    this.#listener = new Listener(ownPool, log);
    this.#news = new News({ listener: this.#listener, db: this, log, timings: news });
    const session = { statements: new Statements(), bounds: undefined, news: this.#news };
    this.#own = { pool: ownPool, session };
    const sharedConfig = {
      ...common,
      ...clientAddress(connection),
      ...timeouts(connectMs, statementMs),
      ...(isPooled ? {} : bounds),
      max,
      idleTimeoutMillis: 30_000,
    };
    this.#shared = {
      pool: openPool(sharedConfig, log),
      // A pooler gives each transaction whichever connection is free: nothing may depend on what a connection was told.
      session: isPooled ? { ...session, statements: new Statements(0), bounds } : session,
    };
    this.direct = {
      many: (schema, text, values) => this.#single((queries) => queries.many(schema, text, values), this.#own),
      one: (schema, text, values) => this.#single((queries) => queries.one(schema, text, values), this.#own),
      run: (text, values) => this.#single((queries) => queries.run(text, values), this.#own),
    };
  }

  many<S extends z.ZodType>(schema: S, text: string, values?: readonly unknown[]): Promise<z.output<S>[]> {
    return this.#single((queries) => queries.many(schema, text, values));
  }

  one<S extends z.ZodType>(schema: S, text: string, values?: readonly unknown[]): Promise<z.output<S> | undefined> {
    return this.#single((queries) => queries.one(schema, text, values));
  }

  run(text: string, values?: readonly unknown[]): Promise<number> {
    return this.#single((queries) => queries.run(text, values));
  }

  script(text: string): Promise<void> {
    return this.#use((queries) => queries.script(text));
  }

  notify(channel: string, payload?: string): Promise<void> {
    return this.tx((tx) => tx.notify(channel, payload));
  }

  hint(channel: string): Promise<void> {
    return this.tx((tx) => tx.hint(channel));
  }

  ping(): Promise<void> {
    return this.#use((queries) => queries.ping());
  }

  /**
   * Runs `fn` in a transaction: committed when it resolves, rolled back when it rejects. After a serialization failure
   * or a deadlock it runs again, a few times, so `fn` must have no effect outside the transaction.
   */
  tx<T>(fn: (tx: Tx) => Promise<T>, options: TxOptions = {}): Promise<T> {
    const work = (queries: ConnectionQueries) => queries.transaction(fn, options);
    return this.#retried(() => this.#use(work, this.#shared, options.timeoutMs), this.#shared);
  }

  /**
   * Calls `handler` with each payload sent to `channel`, and with '' whenever notifications may have been missed (once
   * it listens, and after every reconnection): look for yourself. A payload may come twice.
   */
  listen(channel: string, handler: (payload: string) => void): Ending {
    if (this.#closing !== undefined) throw closed();
    return this.#news.listen(channel, handler);
  }

  /** From now on notifications and hints go over `bus`, which reaches all processes. Before anybody listens. */
  tellOver(bus: NewsBus): void {
    this.#news.useBus(bus);
  }

  /** Refuses new work, waits for what runs, ends all connections. Idempotent. */
  close(): Promise<void> {
    this.#closing ??= (async () => {
      await this.#news.close();
      await this.#listener.close();
      while (this.#running.size > 0) await Promise.allSettled(this.#running);
      await Promise.all([this.#shared.pool.end(), this.#own.pool.end()]);
    })();
    return this.#closing;
  }

  /** One statement on its own that lost a conflict did nothing, so it runs again like a transaction. */
  #single<T>(work: (queries: ConnectionQueries) => Promise<T>, on = this.#shared): Promise<T> {
    return this.#retried(() => this.#use(work, on), on);
  }

  async #retried<T>(work: () => Promise<T>, { pool }: SessionPool): Promise<T> {
    // Every connection may hold an outdated plan, and each refuses once.
    const attempts = MAX_ATTEMPTS + pool.options.max;
    for (let attempt = 1; ; attempt++) {
      try {
        return await work();
      } catch (error) {
        if (!(error instanceof StorageError) || error.code !== 'conflict') throw error;
        if (attempt >= (isStalePlan(error) ? attempts : MAX_ATTEMPTS)) throw error;
        await sleep(backoffMs(attempt, BACKOFF, FULL_JITTER));
      }
    }
  }

  #use<T>(work: (queries: ConnectionQueries) => Promise<T>, on = this.#shared, timeoutMs?: number): Promise<T> {
    if (this.#closing !== undefined) return Promise.reject(closed());
    if (on.pool.waitingCount >= MAX_WAITING) {
      return Promise.reject(new StorageError('unavailable', 'Too many statements wait for the database.'));
    }
    const running = withClient(work, on, timeoutMs).finally(() => this.#running.delete(running));
    this.#running.add(running);
    return running;
  }
}

async function withClient<T>(
  work: (queries: ConnectionQueries) => Promise<T>,
  { pool, session }: SessionPool,
  timeoutMs: number | undefined,
): Promise<T> {
  let client: pg.PoolClient;
  try {
    client = await pool.connect();
  } catch (error) {
    throw toStorageError(error);
  }
  const queries = new ConnectionQueries(client, session, timeoutMs);
  try {
    return await work(queries);
  } finally {
    queries.end();
    client.release(queries.broken);
  }
}

function openPool(config: pg.PoolConfig, log: Log): pg.Pool {
  const pool = new pg.Pool(config);
  pool.on('error', (error) => log.warn({ error: error.message }, 'an idle database connection was lost'));
  // A connection can also die while it is checked out and between two statements.
  pool.on('connect', (client) =>
    client.on('error', (error) => log.debug({ error: error.message }, 'a database connection was lost')),
  );
  return pool;
}

/** A server that stopped answering altogether does not cancel anything: our own clock does, a little later. */
function timeouts(connectMs: number, statementMs: number): pg.PoolConfig {
  return { connectionTimeoutMillis: connectMs, query_timeout: statementMs + 5000 };
}

/** The address as `pg` takes it. */
export function clientAddress(connection: DbConnection): pg.ClientConfig {
  if ('connectionString' in connection) return { connectionString: connection.connectionString };
  const { socketDir, port = 5432, user, database } = connection;
  return { host: socketDir, port, user, database };
}

function closed(): StorageError {
  return new StorageError('unavailable', 'The database handle is closed.');
}
