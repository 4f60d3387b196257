/**
 * Statements for the driver: each with a stable name, parameters that can be stored, values as this room reads them.
 */
import { createHash } from 'node:crypto';
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
function checkParameters(values: readonly unknown[]): void {
  for (const value of values) {
    if (typeof value === 'string') {
      if (value.includes('\0')) throw new StorageError('invalid', 'Text must not contain a NUL character.');
    } else if (Array.isArray(value)) {
      checkParameters(value);
    }
  }
}

/** Enough for every statement written in this room; texts beyond it are sent unnamed, so no server fills with plans. */
const MAX_NAMED = 1000;

/** Gives each distinct statement text a stable name, so that a connection parses and plans it once. */
export class Statements {
  readonly #names = new Map<string, string>();
  readonly #most: number;

  /** `most`: how many texts get a name. */
  constructor(most: number = MAX_NAMED) {
    this.#most = most;
  }

  /** pg's query object for `text`. Throws StorageError `invalid` for a parameter that cannot be stored. */
  prepare(text: string, values: readonly unknown[]): { name?: string; text: string; values: unknown[] } {
    checkParameters(values);
    const name = this.#nameOf(text);
    return name === undefined ? { text, values: [...values] } : { name, text, values: [...values] };
  }

  #nameOf(text: string): string | undefined {
    const known = this.#names.get(text);
    if (known !== undefined || this.#names.size >= this.#most) return known;
    const name = `t${createHash('sha256').update(text).digest('base64url').slice(0, 22)}`;
    this.#names.set(text, name);
    return name;
  }
}
