import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { findProgram, runProgram } from '../run.ts';
import { mountsBelow } from './dockerd-files.ts';
import { isAlive, signalTo } from './processes.ts';

/** How often a mount that is in use is tried, and the pause between two tries in milliseconds. */
const [UNMOUNTS, UNMOUNT_PAUSE_MS] = [40, 50];

/**
 * Unmounts what a dockerd that was killed mounted below `folders`; what is still in use after two seconds stays. The
 * threads of a process that was killed may hold its files for a moment longer than its main thread lives.
 */
export async function unmountLeftovers(folders: readonly string[]): Promise<void> {
  const program = findProgram('umount');
  if (program === undefined) return;
  for (let tries = 1; tries <= UNMOUNTS; tries += 1) {
    const mounts = mountsBelow(readFileSync('/proc/self/mounts', 'utf8'), folders);
    if (mounts.length === 0) return;
    if (tries > 1) await delay(UNMOUNT_PAUSE_MS);
    for (const path of mounts) await runProgram(program, [path]);
  }
}

/**
 * Ends what containerd keeps a container by (its shims), and what runs below them: a containerd that was killed forgets
 * some. For when dockerd and containerd have ended; `execRoot` tells this dockerd's from others'.
 */
export async function endShims(execRoot: string): Promise<void> {
  const shims = shimsOf(execRoot);
  if (shims.length === 0) return;
  const all = [...shims, ...childrenOf(shims)];
  for (const pid of all) signalTo(pid, 'SIGKILL');
  // What held a mount must be gone before that is undone; a process that cannot die holds nobody up.
  for (let waits = 0; waits < 100 && all.some(isAlive); waits += 1) await delay(50);
}

/** The shims of a private dockerd: by the socket of its containerd on their command line. */
export function shimsOf(execRoot: string): number[] {
  return processes().filter((pid) => {
    const words = textOf(pid, 'cmdline').split('\0');
    return words[0]?.includes('containerd-shim') === true && words.some((word) => word.startsWith(`${execRoot}/`));
  });
}

/** Their children. A container's first process takes all others of it along. */
function childrenOf(parents: readonly number[]): number[] {
  return processes().filter((pid) => {
    const parent = /^PPid:\s+(\d+)/m.exec(textOf(pid, 'status'))?.[1];
    return parents.includes(Number(parent));
  });
}

function processes(): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number);
}

/** A file of a process in proc(5); empty when it has ended. */
function textOf(pid: number, file: 'cmdline' | 'status'): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'utf8');
  } catch {
    return '';
  }
}
