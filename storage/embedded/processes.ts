import { createHash, randomUUID } from 'node:crypto';
import { readFileSync, readlinkSync } from 'node:fs';
import { link, open, readFile, rm } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { isCode } from '../../lib/errors.ts';

/**
 * State and start time of a process, from /proc (proc(5)): a zombie nobody reaps still answers signals, and a number is
 * used again after a reboot. Where there is no /proc, a process that takes signal 0 counts as running.
 */
function probe(pid: number): { state: string; started: string } | undefined {
  if (!Number.isInteger(pid) || pid <= 0) return undefined;
  if (process.platform !== 'linux') return takesSignals(pid) ? { state: 'R', started: '' } : undefined;
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    // The command's name is in parentheses and may hold anything, blanks too.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return { state: fields[0] ?? 'X', started: fields[19] ?? '' };
  } catch {
    return undefined;
  }
}

function takesSignals(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return isCode(error, 'EPERM');
  }
}

/** Whether the process runs; a zombie does not. */
export function isRunning(pid: number): boolean {
  const found = probe(pid);
  return found !== undefined && found.state !== 'Z' && found.state !== 'X';
}

/** Whether `pid` runs with `dir` as its working directory (a PostgreSQL server lives in its data directory). */
export function runsIn(pid: number, dir: string): boolean {
  if (!isRunning(pid)) return false;
  if (process.platform !== 'linux') return true;
  try {
    return readlinkSync(`/proc/${pid}/cwd`) === dir;
  } catch (error) {
    // Of another user: it is not ours to judge, and not ours to replace.
    return isCode(error, 'EACCES');
  }
}

/** Text that tells this holder from every other, in this process or another, also after the number was used again. */
export function newIdentity(): string {
  return `${process.pid} ${probe(process.pid)?.started ?? ''} ${randomUUID()}`;
}

/** Whether the process of an identity still runs. */
export function isIdentityAlive(identity: string): boolean {
  const [pid, started] = identity.split(' ');
  const found = probe(Number(pid));
  return found !== undefined && found.state !== 'Z' && found.state !== 'X' && found.started === started;
}

/** The identity in `file`, or undefined when there is none. */
export async function readIdentity(file: string): Promise<string | undefined> {
  return readFile(file, 'utf8').catch(() => undefined);
}

/**
 * Puts `identity` into `file` unless a living process holds it. Returns whether it did. The file appears complete, or
 * not at all.
 */
export async function claim(file: string, identity: string): Promise<boolean> {
  const own = `${file}.${randomUUID()}`;
  const handle = await open(own, 'wx', 0o600);
  await handle.writeFile(identity);
  await handle.close();
  try {
    for (;;) {
      try {
        await link(own, file);
        return true;
      } catch {
        const holder = await readIdentity(file);
        if (holder === undefined) continue;
        if (isIdentityAlive(holder)) return false;
        await removeStale(file, holder);
      }
    }
  } finally {
    await rm(own, { force: true });
  }
}

/**
 * Removes `file` if it still holds `holder`. Looking and removing are two steps, so only who claimed the right to
 * remove this one holder does both; a holder is never written twice, and nobody else touches the file of a dead one.
 */
async function removeStale(file: string, holder: string): Promise<void> {
  const right = `${file}.${createHash('sha256').update(holder).digest('hex').slice(0, 12)}`;
  const identity = newIdentity();
  if (!(await claim(right, identity))) {
    await sleep(5);
    return;
  }
  if ((await readIdentity(file)) === holder) await rm(file, { force: true });
  await release(right, identity);
}

/** Gives a claimed file up; does nothing when another holds it by now. */
export async function release(file: string, identity: string): Promise<void> {
  if ((await readIdentity(file)) === identity) await rm(file, { force: true });
}

/** Runs `work` while no other holder of `file`, in any process, runs its own. */
export async function exclusively<T>(file: string, work: () => Promise<T>): Promise<T> {
  const identity = newIdentity();
  while (!(await claim(file, identity))) await sleep(30);
  try {
    return await work();
  } finally {
    await release(file, identity);
  }
}
