import { createHash } from 'node:crypto';
import { checkParameters } from './values.ts';

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
