/** Ids of users and containers: a DNS label, an SSH user name and a scope segment at once. */
import { randomBytes } from 'node:crypto';
import { z } from 'zod';

const LETTERS = 'abcdefghijklmnopqrstuvwxyz';
const ALPHABET = `${LETTERS}0123456789`;
const LENGTH = 12;

/** 12 characters of `[a-z0-9]`, the first a letter. */
export const ID_PATTERN = /^[a-z][a-z0-9]{11}$/;

/** Schema of an id as it comes from outside. */
export const idSchema = z.string().regex(ID_PATTERN, 'must be 12 characters a-z and 0-9, the first a letter');

/** A new random id: 61 bits from the system's generator, each character equally likely. */
export function newId(): string {
  let id = '';
  while (id.length < LENGTH) {
    for (const byte of randomBytes(24)) {
      const set = id.length === 0 ? LETTERS : ALPHABET;
      // Bytes past the last whole multiple would favour the first letters of the alphabet.
      if (byte >= 256 - (256 % set.length)) continue;
      id += set[byte % set.length];
      if (id.length === LENGTH) break;
    }
  }
  return id;
}
