/** What runs in each of the threads of hash-threads.ts: one password after the other. */
import { getPriority, setPriority } from 'node:os';
import { parentPort } from 'node:worker_threads';
import { hashSync, verifySync } from '@node-rs/argon2';
import { type HashAnswer, hashJob } from './hash-jobs.ts';

/** Who waits for a hash waits for 10 ms anyhow; what the event loop does in between should not. */
const NICER = 5;
/** The nicest that the kernel knows. */
const NICEST = 19;
// Elsewhere this would change the whole process, and not only its thread. Less nice than it is, only root may make it.
if (process.platform === 'linux') setPriority(0, Math.min(getPriority() + NICER, NICEST));

parentPort?.on('message', (message: unknown) => {
  const { id, password, stored, parameters } = hashJob.parse(message);
  parentPort?.postMessage({
    id,
    result: stored === undefined ? hashSync(password, parameters) : isMatch(stored, password),
  } satisfies HashAnswer);
});

/** A malformed hash, for which the library throws, matches nothing. */
function isMatch(stored: string, password: string): boolean {
  try {
    return verifySync(stored, password);
  } catch {
    return false;
  }
}
