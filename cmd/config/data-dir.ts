/** The folder under --data: where it is, who may read it, and the secrets that live in it. */
import { type KeyObject, randomBytes } from 'node:crypto';
import { chmodSync, existsSync, linkSync, mkdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { errorText, isCode } from '../../lib/errors.ts';
import type { SharedSecret } from '../../proto/auth/shared-secret.ts';
import { parseSealKey } from '../../storage/seal.ts';
import { CliError } from './cli-error.ts';
import type { Environment } from './config.ts';
import { hint } from './program.ts';
import { JWT_SECRET_FILE, MIN_SECRET_BYTES, newSecret, readSecret, rotation, sharedSecret } from './shared-secrets.ts';

/**
 * Makes the folder and returns its absolute path. Others may pass through (the database's user must), not read. Of one
 * that is there already no right is taken away: it may be more than ours. Throws CliError with the reason.
 */
export function openDataDir(path: string): string {
  const dir = resolve(path);
  let mode: number;
  try {
    makeFolder(dir);
    mode = statSync(dir).mode & 0o7777;
    if ((mode & 0o002) === 0 && (mode | 0o711) !== mode) chmodSync(dir, mode | 0o711);
  } catch (cause) {
    throw new CliError(
      `The data folder ${dir} cannot be made or changed (${reasonOf(cause)}): choose one of your own with --data DIR.`,
      { cause },
    );
  }
  if ((mode & 0o002) !== 0)
    throw new CliError(
      `Everybody may write to ${dir}, so it cannot hold secrets: choose one of your own with --data DIR.`,
    );
  return dir;
}

/**
 * The folder of a platform that has a database of its own there. Throws CliError when there is none: commands that look
 * or change must not make a platform where somebody mistyped --data.
 */
export function dataDirInUse(path: string): string {
  const dir = resolve(path);
  // A private Docker Engine is there before the database, and `down` must find it.
  if (!['postgres', 'docker'].some((name) => existsSync(join(dir, name))))
    throw new CliError(
      `There is no platform under ${dir} yet: start it with ${hint('up', path)}, or name its folder with --data DIR.`,
    );
  checkOwner(dir);
  return openDataDir(dir);
}

/** Whoever does not own the folder may read neither its secrets nor its database: said at once. Throws CliError. */
function checkOwner(dir: string): void {
  const mine = process.geteuid?.();
  const { uid } = statSync(dir);
  if (mine === undefined || mine === 0 || mine === uid) return;
  const owner = uid === 0 ? 'root' : `its owner (user id ${uid})`;
  throw new CliError(
    `The platform under ${dir} belongs to ${owner}: run the command as ` +
      `${uid === 0 ? 'root, with sudo for example' : 'that user'}.`,
  );
}

/** Folder by folder: Node's recursive form never ends where none can be made although its parent is there (/proc). */
function makeFolder(dir: string): void {
  if (existsSync(dir)) {
    if (!statSync(dir).isDirectory()) throw new Error('it is not a folder');
    return;
  }
  const parent = dirname(dir);
  if (parent !== dir) makeFolder(parent);
  try {
    mkdirSync(dir, { mode: 0o711 });
  } catch (error) {
    // Another start may have made it meanwhile.
    if (!isCode(error, 'EEXIST')) throw error;
  }
}

const REASONS: Readonly<Record<string, string>> = {
  EACCES: 'you may not write there',
  EPERM: 'it is not yours',
  EROFS: 'its file system is read-only',
  ENOSPC: 'the disk is full',
  ENOENT: 'no folder can be made there',
};

function reasonOf(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  return REASONS[code] ?? errorText(error);
}

/** The secrets the platform needs. */
export interface Secrets {
  readonly jwtSecret: SharedSecret;
  readonly encryptionKey: KeyObject;
}

/** Takes the secrets from the environment; those not given are made once and kept under `dir`, readable by us alone. */
export function openSecrets(dir: string, environment: Environment): Secrets {
  const jwtSecret = environment.JWT_SECRET ?? keep(join(dir, JWT_SECRET_FILE), newSecret);
  const key = environment.ENCRYPTION_KEY ?? keep(join(dir, 'encryption-key'), () => randomBytes(32).toString('base64'));
  let encryptionKey: KeyObject;
  try {
    encryptionKey = parseSealKey(key);
  } catch (cause) {
    throw new CliError(
      `${join(dir, 'encryption-key')} does not hold 32 bytes in base64: restore it from your backup.`,
      { cause },
    );
  }
  if (Buffer.byteLength(jwtSecret) < MIN_SECRET_BYTES)
    throw new CliError(
      `${join(dir, JWT_SECRET_FILE)} is shorter than ${MIN_SECRET_BYTES} bytes: restore it from your backup.`,
    );
  // Those of the folder belong to its own secret.
  const others = environment.JWT_SECRET === undefined ? rotation(dir) : environment;
  return { jwtSecret: sharedSecret(jwtSecret, others), encryptionKey };
}

/** The same without a need for the encryption key: where nobody gave one, none is made; it would open nothing. */
export function openGivenSecrets(
  dir: string,
  environment: Environment,
): Omit<Secrets, 'encryptionKey'> & { readonly encryptionKey: KeyObject | undefined } {
  const isGiven = environment.ENCRYPTION_KEY !== undefined || existsSync(join(dir, 'encryption-key'));
  // One that is kept nowhere stands in its place, so that the rest is read as ever.
  const stand = { ...environment, ENCRYPTION_KEY: randomBytes(32).toString('base64') };
  const secrets = openSecrets(dir, isGiven ? environment : stand);
  return { ...secrets, encryptionKey: isGiven ? secrets.encryptionKey : undefined };
}

/**
 * Reads the file, or writes it whole: a link into place, so that of two starts at once one wins and both read the same.
 */
function keep(path: string, make: () => string): string {
  const existing = readSecret(path);
  if (existing !== undefined) return existing;
  const draft = `${path}.${process.pid}`;
  writeFileSync(draft, `${make()}\n`, { mode: 0o600, flush: true });
  try {
    linkSync(draft, path);
  } catch (error) {
    if (!isCode(error, 'EEXIST')) throw error;
  } finally {
    rmSync(draft, { force: true });
  }
  return readSecret(path) ?? '';
}
