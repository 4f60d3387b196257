import pg from 'pg';
import { StorageError } from './errors.ts';

const INT8 = 20;
const INT8_ARRAY: number = 1016;
const DATE = 1082;

/** Refuses what a JavaScript number cannot hold exactly. */
function safeInteger(text: string): number {
  const value = Number(text);
  if (!Number.isSafeInteger(value)) throw new StorageError('invalid', 'A number from the database is beyond 2^53.');
  return value;
}

// A calendar date has no time zone; a Date would move it by the host's.
const parsers = new Map<number, (text: string) => unknown>([
  [INT8, safeInteger],
  [
    INT8_ARRAY,
    (text) => {
      const items: unknown = pg.types.getTypeParser(INT8_ARRAY)(text);
      return Array.isArray(items) ? items.map((item) => (typeof item === 'string' ? safeInteger(item) : item)) : items;
    },
  ],
  [DATE, (text) => text],
]);

/** How values arrive from the server; set per client, so that other users of `pg` in the process are left alone. */
export const valueParsers: pg.CustomTypesConfig = {
  getTypeParser(oid: number, format?: 'text' | 'binary') {
    const own = format === 'binary' ? undefined : parsers.get(oid);
    return own ?? pg.types.getTypeParser(oid, format ?? 'text');
  },
};

/** Throws StorageError `invalid` when a text among the parameters holds a NUL, which PostgreSQL cannot store. */
export function checkParameters(values: readonly unknown[]): void {
  for (const value of values) {
    if (typeof value === 'string') {
      if (value.includes('\0')) throw new StorageError('invalid', 'Text must not contain a NUL character.');
    } else if (Array.isArray(value)) {
      checkParameters(value);
    }
  }
}
