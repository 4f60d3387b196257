/** Secrets of a trial that can be found again wherever they went, and in which form. */
import { randomBytes } from 'node:crypto';

/** Where a canary was found. */
export interface FoundCanary {
  readonly canary: string;
  readonly form: string;
  readonly place: string;
  /** What is around it, without control characters. */
  readonly around: string;
}

const LETTERS = 'abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789';
/** Of letters and digits, which JSON, URLs, forms and shells leave as they are. */
const word = (length: number): string =>
  [...randomBytes(length)].map((byte) => LETTERS.charAt(byte % LETTERS.length)).join('');

/** Of base64, what three letters more or less before and behind do not change. */
function inBase64(text: string, before: number): string {
  const whole = Buffer.from('\0'.repeat(before) + text).toString('base64');
  return whole.slice(Math.ceil((before * 8) / 6), Math.floor(((before + text.length) * 8) / 6));
}

/**
 * Each value is a mark of this trial, letters of its own, and characters that JSON, URLs and shells escape. The first two are looked
 * for: escaping leaves them alone.
 */
export class Canaries {
  readonly #mark = word(12);
  readonly #values = new Map<string, string>();
  /** Bytes that were looked through. */
  searched = 0;

  get count(): number {
    return this.#values.size;
  }

  /** A new secret. `isPlain`: of letters and digits alone. */
  make(name: string, isPlain = false): string {
    const value = `${this.#mark}${word(20)}${isPlain ? '' : `"\\/ +%&é'$`}`;
    this.#values.set(name, value);
    return value;
  }

  /** All that are in some bytes, in plain or as hex or base64; the first of each form. */
  find(place: string, content: string | Buffer): FoundCanary[] {
    const bytes = typeof content === 'string' ? Buffer.from(content) : content;
    this.searched += bytes.length;
    const found: FoundCanary[] = [];
    for (const [form, write] of FORMS) {
      for (let at = bytes.indexOf(write(this.#mark)); at !== -1; at = bytes.indexOf(write(this.#mark), at + 1)) {
        const around = bytes.subarray(Math.max(0, at - 80), at + 200).toString('latin1');
        for (const [canary, value] of this.#values)
          if (
            around.includes(write(value.slice(0, 32))) &&
            !found.some((one) => one.canary === canary && one.form === form)
          )
            found.push({ canary, form, place, around: around.replaceAll(/[^ -~]+/g, ' ') });
      }
    }
    return found;
  }
}

const FORMS: readonly (readonly [string, (text: string) => string])[] = [
  ['plain', (text) => text],
  ['hex', (text) => Buffer.from(text).toString('hex')],
  ['hex in capitals', (text) => Buffer.from(text).toString('hex').toUpperCase()],
  ['base64', (text) => inBase64(text, 0)],
  ['base64, one byte later', (text) => inBase64(text, 1)],
  ['base64, two bytes later', (text) => inBase64(text, 2)],
];
