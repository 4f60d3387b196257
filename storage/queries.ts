import { z } from 'zod';

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

/** Reads a row of one column as the value of that column. */
const only = <S extends z.ZodType>(value: S) => z.preprocess((row) => Object.values(Object(row))[0], value);

/** Rows of one column. */
export const textRow = only(z.string());
export const numberRow = only(z.number());
export const flagRow = only(z.boolean());

/** A column that may be null, which is read as undefined. */
export const nullish = <S extends z.ZodType>(column: S) => column.nullable().transform((value) => value ?? undefined);

/** The columns of a schema for `select` and `returning`: `created_at as "createdAt"` for its `createdAt`. */
export function columnsOf(schema: z.ZodObject): string {
  return Object.keys(schema.shape)
    .map((key) => [key.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`), key])
    .map(([column, key]) => (column === key ? key : `${column} as "${key}"`))
    .join(', ');
}
