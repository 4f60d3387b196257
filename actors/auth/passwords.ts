/** Password hashing: argon2id off the event loop, no more at once than there are cores (design.md, section 9). */
import { availableParallelism } from 'node:os';
import { hash, verify } from '@node-rs/argon2';

/** OWASP's second choice: 19 MiB, two passes, one lane. argon2id is the library's default algorithm. */
const PARAMETERS = { memoryCost: 19_456, timeCost: 2, parallelism: 1 } as const;
const CURRENT = /^\$argon2id\$v=19\$m=19456,t=2,p=1\$/;

const waiting: (() => void)[] = [];
let free = Math.max(1, availableParallelism());

/** More hashes at once than cores only make each of them slower, and starve everything else in the thread pool. */
async function limited<T>(work: () => Promise<T>): Promise<T> {
  if (free > 0) free--;
  else await new Promise<void>((resolve) => waiting.push(resolve));
  try {
    return await work();
  } finally {
    const next = waiting.shift();
    if (next === undefined) free++;
    else next();
  }
}

/** Unicode twins of one password are one password. */
const normal = (password: string) => password.normalize('NFC');

/** The PHC string of a password. */
export function hashPassword(password: string): Promise<string> {
  return limited(() => hash(normal(password), PARAMETERS));
}

/** Whether the password is the hashed one. A malformed hash matches nothing. */
export function verifyPassword(stored: string, password: string): Promise<boolean> {
  return limited(() => verify(stored, normal(password)).catch(() => false));
}

/** Whether a hash was made with other parameters than today's. */
export function needsRehash(stored: string): boolean {
  return !CURRENT.test(stored);
}

let dummy: Promise<string> | undefined;

/** Takes as long as verifying a password of a user who exists, so that time does not tell who does. */
export async function verifyNobody(password: string): Promise<false> {
  dummy ??= hashPassword('nobody has this password');
  await verifyPassword(await dummy, password);
  return false;
}
