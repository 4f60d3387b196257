/** The codes of a login by browser: how they are made, read, and kept. */
import { createHmac, type KeyObject, randomBytes, randomInt } from 'node:crypto';
import { derivedKeyring, type SharedSecret } from '../../../proto/auth/shared-secret.ts';

/** No vowels, which would make words, and nothing that looks like something else: 0 O, 1 I L, 2 Z, 5 S, 8 B. */
const LETTERS = 'CDFGHJKMNPQRTVWXY34679';
const HALF = 4;
const LENGTH = 2 * HALF;
const SHAPE = new RegExp(`^[${LETTERS}]{${LENGTH}}$`);

/** What is kept of a code that a person types: its first half finds the login, all of it proves it. */
interface CodeHashes {
  readonly lookupHash: string;
  readonly codeHash: string;
}

/** Hashes codes with a key: of short codes a plain hash would tell all to whoever reads the database. */
export class DeviceCodes {
  readonly #key: KeyObject;

  constructor(secret: SharedSecret) {
    [{ key: this.#key }] = derivedKeyring(secret, 'device codes');
  }

  /** What the program asks with: 256 bits. */
  newDeviceCode(): string {
    return randomBytes(32).toString('base64url');
  }

  /** What a person types: 8 letters, about 36 bits, as `KHTN-4Q7W`. */
  newUserCode(): string {
    const half = () => Array.from({ length: HALF }, () => LETTERS[randomInt(LETTERS.length)]).join('');
    return `${half()}-${half()}`;
  }

  deviceHash(code: string): string {
    return this.#hash('device', code);
  }

  /** Of a code as a person types it, in any case and with any spaces; undefined for what can be none. */
  userCode(typed: string): CodeHashes | undefined {
    const code = typed.toUpperCase().replace(/[\s-]/g, '');
    if (!SHAPE.test(code)) return undefined;
    return { lookupHash: this.#hash('lookup', code.slice(0, HALF)), codeHash: this.#hash('code', code) };
  }

  #hash(what: string, text: string): string {
    return createHmac('sha256', this.#key).update(`${what}\0${text}`).digest('base64url');
  }
}
