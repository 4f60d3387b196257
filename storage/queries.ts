import type { z } from 'zod';

/**
 * What functions of this room run their SQL on: the pool, or one transaction of it. Rows go through a schema. int8
 * arrives as a number (beyond 2^53: `invalid`), timestamptz as Date, bytea as Buffer, numeric and date as string, jsonb
 * parsed. A jsonb parameter is passed as JSON text (`$1::jsonb`). All reject with StorageError.
 */
export interface Queries {
  /** All rows. */
  many<S extends z.ZodType>(schema: S, text: string, values?: readonly unknown[]): Promise<z.output<S>[]>;
  /** The only row, or undefined. More than one row is `internal`. */
  one<S extends z.ZodType>(schema: S, text: string, values?: readonly unknown[]): Promise<z.output<S> | undefined>;
  /** Number of rows the statement touched. */
  run(text: string, values?: readonly unknown[]): Promise<number>;
  /** Several statements at once, without parameters (migrations). */
  script(text: string): Promise<void>;
  /**
   * Tells listeners of `channel`, at the commit. Who misses it hears of it later. `payload` is at most 7,999 bytes.
   */
  notify(channel: string, payload?: string): Promise<void>;
  /** Tells them, at the commit, that there is something to look for. They look from time to time anyway. */
  hint(channel: string): Promise<void>;
  /** Resolves when the server answers. */
  ping(): Promise<void>;
}

/** Statements that are no part of a transaction. */
export type DirectQueries = Pick<Queries, 'many' | 'one' | 'run'>;

/** One open transaction; unusable once it ended. Its statements run one after the other. */
export interface Tx extends Queries {}

export interface TxOptions {
  readonly isolation?: 'read committed' | 'repeatable read' | 'serializable';
  /** Bound of each statement, instead of the database's own. */
  readonly timeoutMs?: number;
}
