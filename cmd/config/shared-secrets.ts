/** JWT_SECRET and those beside it while it is being rotated: out of the environment, or in files of the data folder. */
import { randomBytes } from 'node:crypto';
import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { isCode } from '../../lib/errors.ts';
import type { SharedSecret } from '../../proto/auth/shared-secret.ts';
import { CliError } from './cli-error.ts';

export const MIN_SECRET_BYTES = 32;

/** In the data folder; those beside it end in `-next` and `-previous`. */
export const JWT_SECRET_FILE = 'jwt-secret';
const NEXT_FILE = `${JWT_SECRET_FILE}-next`;
const PREVIOUS_FILE = `${JWT_SECRET_FILE}-previous`;

/** What is accepted besides the secret that signs: the one that will, and the one that did. */
export interface Rotation {
  readonly JWT_SECRET_NEXT?: string | undefined;
  readonly JWT_SECRET_PREVIOUS?: string | undefined;
}

export function sharedSecret(secret: string, { JWT_SECRET_NEXT, JWT_SECRET_PREVIOUS }: Rotation): SharedSecret {
  const others = [JWT_SECRET_NEXT, JWT_SECRET_PREVIOUS].filter(
    (one): one is string => one !== undefined && one !== secret,
  );
  return others.length === 0 ? secret : [secret, ...others];
}

export function newSecret(): string {
  return randomBytes(48).toString('base64url');
}

/** What a rotation has left in the folder. */
export function rotation(dir: string): Rotation {
  return {
    JWT_SECRET_NEXT: readSecret(join(dir, NEXT_FILE)),
    JWT_SECRET_PREVIOUS: readSecret(join(dir, PREVIOUS_FILE)),
  };
}

/** Lets the next secret be accepted; nothing is signed with it yet. Throws CliError when there is one already. */
export function prepareRotation(dir: string): void {
  refuseSecond(dir);
  if (readSecret(join(dir, NEXT_FILE)) !== undefined)
    throw new CliError('The next secret is prepared already: `troupe secrets rotate` makes it the one that signs.');
  write(join(dir, NEXT_FILE), newSecret());
}

/**
 * Makes the next secret, prepared or new, the one that signs; the present one goes on being accepted. Throws CliError.
 */
export function rotate(dir: string): void {
  refuseSecond(dir);
  const secret = readSecret(join(dir, JWT_SECRET_FILE));
  if (secret === undefined)
    throw new CliError(`There is no ${JWT_SECRET_FILE} in ${dir}: where JWT_SECRET is set, it is rotated there.`);
  // First what must not be lost: a rotation that broke off here accepts one secret twice.
  write(join(dir, PREVIOUS_FILE), secret);
  const next = readSecret(join(dir, NEXT_FILE));
  // The same: left by a rotation that broke off after this.
  write(join(dir, JWT_SECRET_FILE), next === undefined || next === secret ? newSecret() : next);
  rmSync(join(dir, NEXT_FILE), { force: true });
}

/** Ends what the previous secret has signed. Throws CliError when there is none. */
export function finishRotation(dir: string): void {
  if (readSecret(join(dir, PREVIOUS_FILE)) === undefined)
    throw new CliError('There is no previous secret: nothing is being rotated.');
  rmSync(join(dir, PREVIOUS_FILE));
}

function refuseSecond(dir: string): void {
  const previous = readSecret(join(dir, PREVIOUS_FILE));
  // The same: a rotation that broke off.
  if (previous !== undefined && previous !== readSecret(join(dir, JWT_SECRET_FILE)))
    throw new CliError(
      'A rotation is under way: `troupe secrets finish` ends it, and what the previous secret signed.',
    );
}

function write(path: string, text: string): void {
  const draft = `${path}.${process.pid}`;
  writeFileSync(draft, `${text}\n`, { mode: 0o600, flush: true });
  renameSync(draft, path);
}

/** What is in a file with a secret; undefined when there is none. Throws CliError. */
export function readSecret(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8').trim();
  } catch (cause) {
    if (isCode(cause, 'ENOENT')) return undefined;
    throw new CliError(`${path} cannot be read: run the command as the user who owns it.`, { cause });
  }
}
