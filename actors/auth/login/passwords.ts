/** Password hashing: argon2id off the event loop, no more at once than there are cores. */
import { availableParallelism } from 'node:os';
import type { ClientNetwork } from '../../../proto/client-network.ts';
import { HashQueue } from './hash-queue.ts';
import { HashThreads } from './hash-threads.ts';

/** OWASP's second choice: 19 MiB, two passes, one lane. argon2id is the library's default algorithm. */
const PARAMETERS = { memoryCost: 19_456, timeCost: 2, parallelism: 1 } as const;
const CURRENT = /^\$argon2id\$v=19\$m=19456,t=2,p=1\$/;

/** More hashes at once than cores only make each of them slower; and on a large machine others live, too. */
const THREADS = Math.min(availableParallelism(), 8);
/** Two for each thread: a thread that is done goes on without waiting for the event loop. */
const CONCURRENCY = THREADS * 2;

/** Hashes that wait at most, before the answer is `overloaded`: about a second of work. */
export const HASH_QUEUE = THREADS * 64;

/** The operator's own, who has no address. */
const OPERATOR: ClientNetwork = { network: '', site: '' };

const queue = new HashQueue({ concurrency: CONCURRENCY, capacity: HASH_QUEUE, perSite: HASH_QUEUE / 2 });
const threads = new HashThreads({ threads: THREADS });

/** Whether a hash for this client would be refused as `overloaded` now. */
export function hashesOverloaded(client: ClientNetwork): boolean {
  return queue.isFullFor(client);
}

/** Unicode twins of one password are one password. */
const normal = (password: string) => password.normalize('NFC');

/** The PHC string of a password. `client`: who waits for it; clients take turns. Refuses `overloaded`. */
export async function hashPassword(password: string, client = OPERATOR): Promise<string> {
  return `${await inThread(client, { password })}`;
}

/** Whether the password is the hashed one. A malformed hash matches nothing. Refuses `overloaded`. */
export async function verifyPassword(stored: string, password: string, client = OPERATOR): Promise<boolean> {
  return (await inThread(client, { stored, password })) === true;
}

function inThread(
  client: ClientNetwork,
  { password, stored }: { readonly password: string; readonly stored?: string },
) {
  const job = { password: normal(password), parameters: PARAMETERS, ...(stored === undefined ? {} : { stored }) };
  return queue.run(client, () => threads.run(job));
}

/** Whether a hash was made with other parameters than today's. */
export function needsRehash(stored: string): boolean {
  return !CURRENT.test(stored);
}

const base64 = (bytes: number) => Buffer.alloc(bytes, 'nobody').toString('base64').replace(/=+$/, '');
/** No password is known that has this hash, and finding one is as hard as for any. */
const COSTS = `m=${PARAMETERS.memoryCost},t=${PARAMETERS.timeCost},p=${PARAMETERS.parallelism}`;
const NOBODY = `$argon2id$v=19$${COSTS}$${base64(16)}$${base64(32)}`;

/** Takes as long as verifying an existing user's password, so that time tells nothing. Refuses `overloaded`. */
export async function verifyNobody(password: string, client = OPERATOR): Promise<false> {
  await verifyPassword(NOBODY, password, client);
  return false;
}
