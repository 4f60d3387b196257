/** A power cut of a platform in one folder: all its processes and containers get SIGKILL at once. */
import { readdir, readFile, readlink } from 'node:fs/promises';
import { docker } from '../engine/docker-client.ts';

/** The processes that were started with a folder, or in it: the platform, PostgreSQL, the registry, commands of users. */
async function processesOf(folder: string): Promise<number[]> {
  const found: number[] = [];
  for (const name of (await readdir('/proc')).filter((each) => /^\d+$/.test(each) && Number(each) !== process.pid))
    try {
      const [line, cwd] = [await readFile(`/proc/${name}/cmdline`, 'utf8'), await readlink(`/proc/${name}/cwd`)];
      if (line.includes(folder) || cwd.startsWith(folder)) found.push(Number(name));
    } catch {
      // It has ended.
    }
  return found;
}

/** Ends everything of a folder, and the containers of these ids in Docker. Returns how many processes there were. */
export async function cutPower(folder: string, dockerIds: readonly string[]): Promise<number> {
  let count = 0;
  for (let pids = await processesOf(folder); pids.length > 0; pids = await processesOf(folder))
    for (const pid of pids)
      try {
        process.kill(pid, 'SIGKILL');
        count += 1;
      } catch {
        // It has ended.
      }
  for (const id of dockerIds)
    await docker()
      .call('POST', `/containers/${id}/kill`)
      .catch(() => {});
  return count;
}

/** Random numbers from 0 to 1, the same for a seed (mulberry32). */
export function randoms(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}
