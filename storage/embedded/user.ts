import { execFile } from 'node:child_process';
import { access, chmod, chown, lstat, mkdir, readFile, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { promisify } from 'node:util';
import { CodedError, isCode } from '../../lib/errors.ts';

/** Why no PostgreSQL of our own can run here. The message is for the person at the terminal and says what to do. */
export class EmbeddedError extends CodedError<
  'no_binaries' | 'no_user' | 'unreachable' | 'other_version' | 'not_a_cluster' | 'start_failed'
> {}

/** Whom the server runs as. */
export interface ServerUser {
  readonly name: string;
  readonly uid: number;
  readonly gid: number;
}

const run = promisify(execFile);
const accounts = ['postgres', 'troupe'];

/**
 * The unprivileged account for the server, or undefined when we are not root ourselves and it runs as we do. PostgreSQL
 * refuses to run as root. An account `postgres` is taken when there is one, else `troupe`, created when missing.
 */
export async function serverUser(): Promise<ServerUser | undefined> {
  if (process.getuid?.() !== 0) return undefined;
  const present = await findAccount();
  if (present !== undefined) return present;
  try {
    await run('useradd', ['--system', '--user-group', '--no-create-home', '--shell', '/usr/sbin/nologin', 'troupe'], {
      env: { PATH: '/usr/sbin:/usr/bin:/sbin:/bin' },
    });
  } catch (cause) {
    const late = await findAccount();
    if (late !== undefined) return late;
    throw new EmbeddedError(
      'no_user',
      'PostgreSQL does not run as root, and no account for it could be created. Create one with: useradd --system ' +
        'troupe',
      { cause },
    );
  }
  const created = await findAccount();
  if (created === undefined) throw new EmbeddedError('no_user', 'The account troupe was created but cannot be found.');
  return created;
}

async function findAccount(): Promise<ServerUser | undefined> {
  const lines = (await readFile('/etc/passwd', 'utf8')).split('\n').map((line) => line.split(':'));
  for (const name of accounts) {
    const [, , uid, gid] = lines.find((fields) => fields[0] === name) ?? [];
    if (uid !== undefined && gid !== undefined) return { name, uid: Number(uid), gid: Number(gid) };
  }
  return undefined;
}

/**
 * The first directory on the way to `path` (itself included) that `user` may not enter; undefined when all are open.
 */
export async function closedDirectory(path: string, user: ServerUser): Promise<string | undefined> {
  const parent = dirname(path);
  if (parent !== path) {
    const closed = await closedDirectory(parent, user);
    if (closed !== undefined) return closed;
  }
  const { mode, uid, gid } = await stat(path);
  const bit = uid === user.uid ? 0o100 : gid === user.gid ? 0o010 : 0o001;
  return (mode & bit) === 0 ? path : undefined;
}

/** Makes a directory with every missing parent; those made can be passed through, not listed (0711). */
export async function makeParents(path: string): Promise<void> {
  try {
    await stat(path);
  } catch {
    await makeParents(dirname(path));
    // The umask may be strict; the bits are set apart.
    await mkdir(path).then(
      () => chmod(path, 0o711),
      (error: unknown) => {
        if (!isCode(error, 'EEXIST')) throw error;
      },
    );
  }
}

/** Makes `dir` (or takes it over when it is a directory already) private to the server's account: mode 0700. */
export async function makePrivate(dir: string, user: ServerUser | undefined): Promise<void> {
  await mkdir(dir, { mode: 0o700 }).catch((error: unknown) => {
    if (!isCode(error, 'EEXIST')) throw error;
  });
  const found = await lstat(dir);
  const expected = user?.uid ?? process.getuid?.() ?? found.uid;
  if (!found.isDirectory() || (found.uid !== expected && found.uid !== process.getuid?.())) {
    throw new EmbeddedError(
      'unreachable',
      `${dir} belongs to somebody else. Remove it, or use another --data directory.`,
    );
  }
  await chmod(dir, 0o700);
  if (user !== undefined) await chown(dir, user.uid, user.gid);
}

/** Whether there is anything at `path`. */
export function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}
