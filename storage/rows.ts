/** Rows as the program has them: a field `userId` is the column `user_id`. */
import { z } from 'zod';
import type { DirectQueries } from './queries.ts';

/**
 * What makes such rows, for a `select` or a `returning`. `computed`: the SQL of fields that are no column of that name.
 * `of`: what the table is called there, where columns of several could be meant.
 */
export function columnsOf<S extends z.ZodObject>(
  row: S,
  computed: { readonly [F in keyof S['shape']]?: string } = {},
  of?: string,
): string {
  const columns = Object.keys(row.shape).map((field) => {
    const column = field.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
    const sql = computed[field] ?? (of === undefined ? column : `${of}.${column}`);
    return column === field && sql === column ? sql : `${sql} as "${field}"`;
  });
  return columns.join(', ');
}

/** A column that may be null, which is undefined here. */
export const orUndefined = <S extends z.ZodType>(schema: S) =>
  schema.nullable().transform((value): z.output<S> | undefined => value ?? undefined);

/** The values of these fields, each as an array, which is how `unnest` takes many rows. */
export function fieldsOf<T>(rows: readonly T[], ...fields: readonly (keyof T)[]): unknown[][] {
  return fields.map((field) => rows.map((row) => row[field]));
}

/** The one value of the only row; undefined without a row. Rejects as `Queries.one`. */
export async function oneValue<S extends z.ZodType>(
  db: DirectQueries,
  schema: S,
  text: string,
  values?: readonly unknown[],
): Promise<z.output<S> | undefined> {
  const row = await db.one(z.record(z.string(), schema), text, values);
  return row === undefined ? undefined : Object.values(row)[0];
}

/** The one value of each row. Rejects as `Queries.many`. */
export async function manyValues<S extends z.ZodType>(
  db: DirectQueries,
  schema: S,
  text: string,
  values?: readonly unknown[],
): Promise<z.output<S>[]> {
  const rows = await db.many(z.record(z.string(), schema), text, values);
  return rows.flatMap((row) => Object.values(row).slice(0, 1));
}
