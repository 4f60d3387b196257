/** The folder under --data: where it is, who may read it, and the secrets that live in it. */
import { type KeyObject, randomBytes } from 'node:crypto';
import {
  chmodSync,
  closeSync,
  fsyncSync,
  linkSync,
  mkdirSync,
  openSync,
  readFileSync,
  rmSync,
  writeSync,
} from 'node:fs';
import { homedir } from 'node:os';
import { join, resolve } from 'node:path';
import { parseSealKey } from '../storage/seal.ts';
import { CliError } from './cli-error.ts';
import type { Environment } from './config.ts';

/** /var/lib/troupe for root, else the user's data folder (XDG base directory specification). */
export function defaultDataDir(env: Readonly<Record<string, string | undefined>>): string {
  if (process.getuid?.() === 0) return '/var/lib/troupe';
  return join(env.XDG_DATA_HOME || join(homedir(), '.local', 'share'), 'troupe');
}

/** Makes the folder and returns its absolute path. Others may pass through (the database's user must), not read. */
export function openDataDir(path: string): string {
  const dir = resolve(path);
  try {
    mkdirSync(dir, { recursive: true, mode: 0o711 });
    chmodSync(dir, 0o711);
  } catch (cause) {
    throw new CliError(`The data folder ${dir} cannot be made or changed: choose one of your own with --data DIR.`, {
      cause,
    });
  }
  return dir;
}

/** The secrets the platform needs. */
export interface Secrets {
  readonly jwtSecret: string;
  readonly encryptionKey: KeyObject;
}

/** Takes the secrets from the environment; those not given are made once and kept under `dir`, readable by us alone. */
export function openSecrets(dir: string, environment: Environment): Secrets {
  const jwtSecret =
    environment.JWT_SECRET ?? keep(join(dir, 'jwt-secret'), () => randomBytes(48).toString('base64url'));
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
  if (Buffer.byteLength(jwtSecret) < 32)
    throw new CliError(`${join(dir, 'jwt-secret')} is shorter than 32 bytes: restore it from your backup.`);
  return { jwtSecret, encryptionKey };
}

/** Reads the file, or writes it whole: a link into place, so that of two starts at once one wins and both read the same. */
function keep(path: string, make: () => string): string {
  const existing = read(path);
  if (existing !== undefined) return existing;
  const draft = `${path}.${process.pid}`;
  const file = openSync(draft, 'w', 0o600);
  writeSync(file, `${make()}\n`);
  fsyncSync(file);
  closeSync(file);
  try {
    linkSync(draft, path);
  } catch (error) {
    if (!isCode(error, 'EEXIST')) throw error;
  } finally {
    rmSync(draft, { force: true });
  }
  return read(path) ?? '';
}

function read(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8').trim();
  } catch (error) {
    if (isCode(error, 'ENOENT')) return undefined;
    throw new CliError(`${path} cannot be read: run the command as the user who owns it.`, { cause: error });
  }
}

/** Whether `error` is a system error with this code. */
export function isCode(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code;
}
