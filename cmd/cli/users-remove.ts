/** `troupe users remove`: says what is to be done, and waits while the platform does it. */
import { createInterface } from 'node:readline/promises';
import { setTimeout as pause } from 'node:timers/promises';
import { beginRemoval, forgetUser } from '../../actors/auth/users/user-state.ts';
import type { Db } from '../../storage/db.ts';
import type { Left } from '../../storage/offboarding.ts';
import { listNodes } from '../../storage/placement/nodes.ts';
import { CliError } from '../config/cli-error.ts';
import { readEnvironment } from '../config/config.ts';
import { type CommandOptions, onDatabase, print } from './command.ts';

/** Options as the command line gives them. */
export interface RemoveOptions extends CommandOptions {
  readonly yes?: boolean;
  /** Until it is done. */
  readonly wait: boolean;
}

const LOOK_MS = 250;
/** Without a change: longer than an engine takes to end a container. */
const PATIENCE_MS = 120_000;

/** What it came to. `left`: what the platform still has to remove, and whether one runs that does. */
type Removal = {
  readonly id: string;
  readonly left: Left | undefined;
  readonly isDone: boolean;
  readonly isServed: boolean;
};

/**
 * Removes a user with all that is theirs. What it began goes on without it; again it goes on waiting, or says that it
 * is done. Throws CliError without `yes` when nobody at a terminal confirms it.
 */
export async function usersRemove(username: string, options: RemoveOptions): Promise<void> {
  const { ADMIN_USERNAME } = readEnvironment(process.env);
  if (!options.yes) await confirm(username);
  const { id, left, isDone, isServed } = await onDatabase(options, (db) =>
    remove(db, username, ADMIN_USERNAME, options.wait),
  );
  const state = isDone ? 'removed' : 'leaving';
  print(options, { id, username, state, ...(isDone ? {} : left) }, () => {
    if (isDone) return `${username} is removed, with all that was theirs.`;
    const rest = `${count(left?.containers, 'container')} and ${count(left?.mappings, 'hostname')} are still to go`;
    return isServed
      ? `${username} is being removed: ${rest}. The platform goes on by itself; run this again to see.`
      : `${username} is being removed: ${rest}, as soon as a platform runs on this database.`;
  });
}

async function remove(db: Db, username: string, admin: string, wait: boolean): Promise<Removal> {
  const { id, isGone } = await beginRemoval(db, username, admin);
  if (isGone) return { id, left: undefined, isDone: true, isServed: true };
  let last = '';
  let until = 0;
  for (;;) {
    const left = await forgetUser(db, id);
    if (left === undefined) return { id, left, isDone: true, isServed: true };
    const isServed = await isAnybodyThere(db);
    const now = performance.now();
    if (JSON.stringify(left) !== last) until = now + PATIENCE_MS;
    last = JSON.stringify(left);
    if (!wait || !isServed || now > until) return { id, left, isDone: false, isServed };
    await pause(LOOK_MS);
  }
}

/** Whether a node lives that ends containers. */
async function isAnybodyThere(db: Db): Promise<boolean> {
  return (await listNodes(db)).some(({ leaseMs, roles }) => leaseMs > 0 && roles.includes('compute'));
}

async function confirm(username: string): Promise<void> {
  const refusal = new CliError(
    `Nothing was done. Removing ${username} deletes their containers with all data, for good: --yes says that ` +
      'this is meant.',
  );
  if (!process.stdin.isTTY) throw refusal;
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  try {
    const typed = await terminal.question(
      `This deletes ${username} and their containers with all data, for good. Type the name to go on: `,
    );
    if (typed.trim() !== username) throw refusal;
  } finally {
    terminal.close();
  }
}

const count = (number: number | undefined, noun: string) => `${number ?? 0} ${noun}${number === 1 ? '' : 's'}`;
