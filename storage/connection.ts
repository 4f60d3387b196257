import type pg from 'pg';
import { z } from 'zod';
import { isStalePlan, StorageError, toStorageError } from './errors.ts';
import type { NewsCarrier, NewsItem } from './news/carriers.ts';
import type { Tx, TxOptions } from './queries.ts';
import type { Statements } from './statements.ts';

/** What the connections of a pool have in common. */
export interface DatabaseSession {
  readonly statements: Statements;
  /** Settings that each transaction sets for itself, ms; undefined: the connection has them. */
  readonly bounds: Readonly<Record<string, number>> | undefined;
  readonly news: Pick<NewsCarrier, 'prepare'>;
}

/** Of several statements at once, each has its result. */
const commandRow = z.object({ command: z.string() });

/** Statements on one checked-out connection. */
export class ConnectionQueries implements Tx {
  /** Set when the connection is in no state to be used again. */
  broken = false;
  readonly #client: pg.PoolClient;
  readonly #session: DatabaseSession;
  readonly #timeoutMs: number | undefined;
  #ended = false;
  /** What the transaction tells at its commit. */
  #news: NewsItem[] = [];
  #last: Promise<unknown> = Promise.resolve();

  constructor(client: pg.PoolClient, session: DatabaseSession, timeoutMs: number | undefined) {
    this.#client = client;
    this.#session = session;
    this.#timeoutMs = timeoutMs;
  }

  end(): void {
    this.#ended = true;
  }

  async many<S extends z.ZodType>(schema: S, text: string, values?: readonly unknown[]): Promise<z.output<S>[]> {
    const { rows } = await this.#query(text, values ?? []);
    return rows.map((row) => parseRow(schema, row));
  }

  async one<S extends z.ZodType>(
    schema: S,
    text: string,
    values?: readonly unknown[],
  ): Promise<z.output<S> | undefined> {
    const { rows } = await this.#query(text, values ?? []);
    if (rows.length > 1) throw new StorageError('internal', `Expected at most one row, got ${rows.length}.`);
    return rows.length === 0 ? undefined : parseRow(schema, rows[0]);
  }

  async run(text: string, values?: readonly unknown[]): Promise<number> {
    return (await this.#query(text, values ?? [])).rowCount ?? 0;
  }

  async script(text: string): Promise<void> {
    await this.#query(text);
  }

  async notify(channel: string, payload = ''): Promise<void> {
    this.#tell({ channel, payload, isKept: true });
  }

  async hint(channel: string): Promise<void> {
    this.#tell({ channel, payload: '', isKept: false });
  }

  async ping(): Promise<void> {
    await this.#query('select 1', []);
  }

  async transaction<T>(fn: (tx: Tx) => Promise<T>, options: TxOptions): Promise<T> {
    await this.#query(this.#begin(options));
    let result: T;
    try {
      result = await fn(this);
    } catch (error) {
      await this.#rollback();
      throw error;
    }
    await this.#commit();
    return result;
  }

  /** With all news in one round trip: NOTIFY holds a lock of the database from there on. */
  async #commit(): Promise<void> {
    const { statements, committed } = this.#session.news.prepare(this.#news);
    let results: unknown;
    try {
      results = await this.#query([...statements, 'commit'].join('; '));
    } catch (error) {
      await this.#rollback();
      throw error;
    }
    const [commit] = commandRow.array().parse([results].flat().slice(-1));
    // The server answers ROLLBACK when a statement had failed and `fn` swallowed its error.
    if (commit?.command !== 'COMMIT') {
      throw new StorageError('internal', 'The transaction was rolled back: one of its statements had failed.');
    }
    committed();
  }

  /** Once, however often it is told: as NOTIFY does. */
  #tell(item: NewsItem): void {
    const { channel, payload } = item;
    if (!this.#news.some((told) => told.channel === channel && told.payload === payload)) this.#news.push(item);
  }

  /** One round trip, whatever is set. */
  #begin({ isolation }: TxOptions): string {
    const settings = { ...this.#session.bounds };
    if (this.#timeoutMs !== undefined) settings.statement_timeout = Math.ceil(this.#timeoutMs);
    const begin = isolation === undefined ? 'begin' : `begin isolation level ${isolation}`;
    return [begin, ...Object.entries(settings).map(([name, ms]) => `set local ${name} = ${ms}`)].join('; ');
  }

  async #rollback(): Promise<void> {
    if (this.broken) return;
    try {
      await this.#query('rollback');
    } catch {
      this.broken = true;
    }
  }

  /** One at a time: pg would queue them too, but a transaction must not send its commit before they all answered. */
  #query(text: string, values?: readonly unknown[]): Promise<pg.QueryResult> {
    const answer = this.#last.then(() => this.#send(text, values));
    this.#last = answer.catch(() => undefined);
    return answer;
  }

  async #send(text: string, values?: readonly unknown[]): Promise<pg.QueryResult> {
    if (this.#ended) throw new StorageError('internal', 'The transaction has ended.');
    try {
      const timeout = this.#timeoutMs === undefined ? {} : { query_timeout: this.#timeoutMs + 5000 };
      // Without values pg uses the simple protocol, which takes several statements.
      const query = values === undefined ? { text } : this.#session.statements.prepare(text, values);
      return await this.#client.query({ ...query, ...timeout });
    } catch (error) {
      const failure = toStorageError(error);
      const serverStillFine = failure.sqlState !== undefined && failure.code !== 'unavailable';
      const reusable = (serverStillFine || failure.code === 'invalid') && !isStalePlan(failure);
      if (!reusable) this.broken = true;
      throw failure;
    }
  }
}

function parseRow<S extends z.ZodType>(schema: S, row: unknown): z.output<S> {
  const parsed = schema.safeParse(row);
  if (parsed.success) return parsed.data;
  const where = parsed.error.issues.map((issue) => `${issue.path.join('.') || '(row)'} ${issue.code}`).join(', ');
  throw new StorageError('internal', `A row does not have the expected shape: ${where}.`);
}
