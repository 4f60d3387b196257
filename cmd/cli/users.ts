/** `troupe users`: users are made here, there is no sign-up. The commands work beside a running platform. */
import { resolve } from 'node:path';
import { createInterface } from 'node:readline/promises';
import { setTimeout as pause } from 'node:timers/promises';
import { ownLimits } from '../../actors/auth/users/limits.ts';
import { addPasswordLink, newPasswordLink } from '../../actors/auth/users/password-links.ts';
import { beginRemoval, disableUser, enableUser, forgetUser } from '../../actors/auth/users/user-state.ts';
import {
  addUser,
  forgetKeys,
  generatePassword,
  limitImages,
  listUsers,
  setPassword,
} from '../../actors/auth/users/users.ts';
import { operatorEntry } from '../../actors/service/audit.ts';
import { firstLineOf } from '../../lib/first-line.ts';
import { MOST_REGISTRY_MB, type PasswordLinkLifetime } from '../../proto/auth/admin.ts';
import type { Db } from '../../storage/db.ts';
import { type Left, untilSessions } from '../../storage/offboarding.ts';
import { listNodes } from '../../storage/placement/nodes.ts';
import { CliError } from '../config/cli-error.ts';
import { readEnvironment } from '../config/config.ts';
import { runningConsole } from '../config/running.ts';
import { type CommandOptions, onDatabase, print, tableLines } from './command.ts';

/** Options as the command line gives them. */
export interface PasswordLinkOptions extends CommandOptions {
  readonly expires: PasswordLinkLifetime;
  readonly url?: string;
}

/** Options as the command line gives them. */
export interface AddUserOptions extends PasswordLinkOptions {
  readonly link?: boolean;
}

/** Adds a user with the password from standard input, or a generated one, which is printed; or with a link for one. */
export async function usersAdd(username: string, options: AddUserOptions): Promise<void> {
  if (options.link) return addWithLink(username, options);
  const given = await passwordFromInput();
  const password = given ?? generatePassword();
  const user = await onDatabase(options, (db) => addUser(db, username, password));
  print(options, { ...user, password: given === undefined ? password : null }, () =>
    given === undefined ? `Added ${username}. The password is ${password} (shown only now).` : `Added ${username}.`,
  );
}

/** Nobody learns the password that the user has until the link is used. */
async function addWithLink(username: string, options: PasswordLinkOptions): Promise<void> {
  const wanted = { origin: consoleOrigin(options), expiresIn: options.expires };
  const { id, link } = await onDatabase(options, async (db) => {
    let made: Awaited<ReturnType<typeof addPasswordLink>> | undefined;
    const user = await addUser(db, username, generatePassword(), operatorEntry, async (tx, added) => {
      made = await addPasswordLink(tx, added, wanted);
    });
    if (made === undefined) throw new TypeError('a user was added without the link');
    return { id: user.id, link: made };
  });
  const { url, expiresAt } = link;
  print(options, { id, username, password: null, url, expires_at: expiresAt.toISOString() }, () => url);
  about(options, `Added ${username}, who sets the password with this link until ${untilText(expiresAt)}.`);
}

/** Makes a link by which a user sets a password, and prints it: alone on standard output, so that it can be piped. */
export async function usersPasswordLink(username: string, options: PasswordLinkOptions): Promise<void> {
  const wanted = { origin: consoleOrigin(options), expiresIn: options.expires };
  const { url, expiresAt } = await onDatabase(options, (db) => newPasswordLink(db, username, wanted));
  print(options, { username, url, expires_at: expiresAt.toISOString() }, () => url);
  about(
    options,
    `${username} sets a new password with this link, once, until ${untilText(expiresAt)}. It is shown only now, and ` +
      'opens the account for whoever has it.',
  );
}

/** A sentence about what was printed, for people. */
function about({ json }: CommandOptions, sentence: string): void {
  if (!json) process.stderr.write(`${sentence}\n`);
}

/** `2026-11-27 14:03 UTC`. */
const untilText = (date: Date) => `${date.toISOString().slice(0, 16).replace('T', ' ')} UTC`;

/** Where links lead: as given, else to the platform that runs on the folder, else by PLATFORM_DOMAIN. */
function consoleOrigin({ url, data }: PasswordLinkOptions): string {
  if (url !== undefined) {
    const given = URL.canParse(url) ? new URL(url) : undefined;
    if (given === undefined || !/^https?:$/.test(given.protocol))
      throw new CliError('--url must be the address of the console, such as https://cloud.example.com.');
    return given.origin;
  }
  const here = runningConsole(resolve(data));
  if (here !== undefined) return new URL(here).origin;
  const { PLATFORM_DOMAIN } = readEnvironment(process.env);
  if (PLATFORM_DOMAIN !== undefined) return `https://${PLATFORM_DOMAIN}`;
  throw new CliError(
    'Where is the console? No platform runs on this folder: name it with --url, such as https://cloud.example.com.',
  );
}

/** Sets a user's password, from standard input or generated. */
export async function usersPasswd(username: string, options: CommandOptions): Promise<void> {
  const given = await passwordFromInput();
  const password = given ?? generatePassword();
  const sessions = await onDatabase(options, (db) => setPassword(db, username, password));
  print(options, { username, password: given === undefined ? password : null, sessions_ended: sessions }, () => {
    const changed =
      given === undefined
        ? `${username} now has the password ${password} (shown only now).`
        : `The password of ${username} is changed.`;
    return `${changed} All sessions are ended${sessions === 0 ? '' : ` (${sessions})`}; API tokens go on.`;
  });
}

/** Deletes all security keys of a user. */
export async function usersForgetKeys(username: string, options: CommandOptions): Promise<void> {
  const keys = await onDatabase(options, (db) => forgetKeys(db, username));
  print(options, { username, keys }, () =>
    keys === 0
      ? `${username} has no security keys.`
      : `${username} has no security keys any more (${keys} deleted): the password is enough.`,
  );
}

/** Prints all users, one a line: name, id, when added, the state, and what they may have. */
export async function usersList(options: CommandOptions): Promise<void> {
  const { users, limits } = await onDatabase(options, async (db) => {
    const all = await listUsers(db);
    const ids = all.map(({ id }) => id);
    return { users: all, limits: await ownLimits(db, ids) };
  });
  const rows = users.map(({ id, username, displayName, createdAt, disabledAt, leaving, registryLimitMb }) => ({
    id,
    username,
    display_name: displayName,
    created_at: createdAt.toISOString(),
    state: leaving === 'remove' ? 'leaving' : disabledAt === null ? 'active' : 'disabled',
    registry_limit_mb: registryLimitMb,
    limits: limits(id),
  }));
  const { ADMIN_USERNAME } = readEnvironment(process.env);
  const cells = rows.map(({ username, id, created_at, registry_limit_mb: mb, state, limits: own }) => {
    const all = username === ADMIN_USERNAME ? 'no limit' : 'default';
    const [containers, keys] = [own.containers, own.ssh_keys].map((most) => String(most ?? 'default'));
    return [username, id, created_at, state, mb === null ? all : `${mb} MiB`, containers ?? '', keys ?? ''];
  });
  const heads = ['USERNAME', 'ID', 'ADDED', 'STATUS', 'IMAGES', 'CONTAINERS', 'SSH KEYS'];
  print(options, rows, () => tableLines(heads, cells).join('\n'));
}

/** Reads MiB, or `default`: null. Throws CliError. */
export function imagesLimit(username: string, limit: string): number | null {
  const limitMb = limit === 'default' ? null : Number(/^[0-9]{1,9}$/.exec(limit)?.[0] ?? Number.NaN);
  if (limitMb === null || limitMb <= MOST_REGISTRY_MB) return limitMb;
  throw new CliError(
    `The limit is ${JSON.stringify(limit)}: give a number of MiB such as 10240, 0 to let ${username} push no ` +
      'images, or "default" for what all may have.',
  );
}

/** Sets how much the images of one user may hold: MiB, or `default` for what all may have. */
export async function usersRegistryLimit(username: string, limit: string, options: CommandOptions): Promise<void> {
  const limitMb = imagesLimit(username, limit);
  const { ADMIN_USERNAME } = readEnvironment(process.env);
  const { id, before, changed } = await onDatabase(options, (db) => limitImages(db, username, limitMb, ADMIN_USERNAME));
  print(options, { id, username, registry_limit_mb: limitMb, before, changed }, () => {
    if (limitMb === 0) return `${username} may push no images. Those that are there stay.`;
    const most = limitMb === null ? 'what REGISTRY_USER_MB says' : `${limitMb} MiB`;
    return `The images of ${username} may hold ${most}, from the next push on.`;
  });
}

/** Longest line of standard input, in characters: far more than a password may have. */
const MOST_READ = 64 * 1024;

/** The first line of a pipe or file on standard input; undefined at a terminal, or when it is empty or closed. */
async function passwordFromInput(): Promise<string | undefined> {
  if (process.stdin.isTTY) return undefined;
  const line = await firstLineOf(process.stdin, MOST_READ).catch(() => '');
  if (line === undefined) throw new CliError('The password on standard input is too long.');
  return line === '' ? undefined : line;
}

/** Options as the command line gives them. */
export interface DisableOptions extends CommandOptions {
  readonly stop?: boolean;
}

/** Disables a user; with `stop` the platform stops their containers. Again does nothing more. */
export async function usersDisable(username: string, options: DisableOptions): Promise<void> {
  const { stop = false } = options;
  const { id, changed, containers } = await onDatabase(options, (db) => disableUser(db, username, { stop }));
  print(options, { id, username, state: 'disabled', changed, stopping: stop, containers }, () => {
    const state = changed ? 'is' : 'was already';
    const done = `${username} ${state} disabled: sessions have ended, tokens and keys open nothing.`;
    if (containers === 0) return done;
    const theirs = containers === 1 ? 'Their container' : `Their ${containers} containers`;
    const goes = containers === 1 ? 'goes' : 'go';
    return stop
      ? `${done}\n${theirs} ${containers === 1 ? 'is' : 'are'} stopped by the platform, within seconds while it runs.`
      : `${done}\n${theirs} ${goes} on running: add --stop to stop ${containers === 1 ? 'it' : 'them'}.`;
  });
}

/** Enables a user, and waits until a login counts. Again does nothing. */
export async function usersEnable(username: string, options: CommandOptions): Promise<void> {
  const { id, changed } = await onDatabase(options, async (db) => {
    const enabled = await enableUser(db, username);
    await pause(await untilSessions(db, enabled.id));
    return enabled;
  });
  print(options, { id, username, state: 'active', changed }, () =>
    changed
      ? `${username} may log in again. API tokens work as before; containers that were stopped stay so.`
      : `${username} was not disabled.`,
  );
}

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
    const counts = [count(left?.containers, 'container'), count(left?.mappings, 'hostname')];
    const rest = `${left?.images ? `${counts.join(', ')} and images` : counts.join(' and ')} are still to go`;
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
