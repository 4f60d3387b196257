/** Password hashing: argon2id off the event loop, no more at once than there are cores (design.md, section 9). */
import { availableParallelism } from 'node:os';
import { hash, verify } from '@node-rs/argon2';
import { HashRoom } from './hash-room.ts';

/** OWASP's second choice: 19 MiB, two passes, one lane. argon2id is the library's default algorithm. */
export const PARAMETERS = { memoryCost: 19_456, timeCost: 2, parallelism: 1 } as const;
const CURRENT = /^\$argon2id\$v=19\$m=19456,t=2,p=1\$/;

/** libuv's pool, in which hashes run, has four threads unless told otherwise; one is left for files and names. */
const POOL_THREADS = 3;
/** More hashes at once than cores only make each of them slower. */
const SEATS = Math.max(1, Math.min(availableParallelism(), POOL_THREADS));
/** About two seconds of work. */
const PER_SEAT = 64;

/** Hashes that wait at most, before the answer is `overloaded`. */
export const HASH_QUEUE = SEATS * PER_SEAT;

const room = new HashRoom({ seats: SEATS, capacity: HASH_QUEUE, perLane: HASH_QUEUE / 2 });

/** Whether a hash for this network would be refused as `overloaded` now. */
export function hashesOverloaded(network: string): boolean {
  return room.full(network);
}

/** Unicode twins of one password are one password. */
const normal = (password: string) => password.normalize('NFC');

/** The PHC string of a password. `network`: who waits for it; networks take turns. Refuses `overloaded`. */
export function hashPassword(password: string, network = ''): Promise<string> {
  return room.run(network, () => hash(normal(password), PARAMETERS));
}

/** Whether the password is the hashed one. A malformed hash matches nothing. Refuses `overloaded`. */
export function verifyPassword(stored: string, password: string, network = ''): Promise<boolean> {
  return room.run(network, () => verify(stored, normal(password)).catch(() => false));
}

/** Whether a hash was made with other parameters than today's. */
export function needsRehash(stored: string): boolean {
  return !CURRENT.test(stored);
}

const base64 = (bytes: number) => Buffer.alloc(bytes, 'nobody').toString('base64').replace(/=+$/, '');
/** No password is known that has this hash, and finding one is as hard as for any. */
const NOBODY = `$argon2id$v=19$m=${PARAMETERS.memoryCost},t=${PARAMETERS.timeCost},p=${PARAMETERS.parallelism}$${base64(16)}$${base64(32)}`;

/** Takes as long as verifying a password of a user who exists, so that time does not tell who does. Refuses `overloaded`. */
export async function verifyNobody(password: string, network = ''): Promise<false> {
  await verifyPassword(NOBODY, password, network);
  return false;
}
