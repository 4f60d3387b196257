/** Requests a second of processes of the real command line, by wrk. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { addUser } from '../../actors/auth/users.ts';
import { startCluster } from '../../test/kit/cluster/cluster.ts';
import type { Member } from '../../test/kit/cluster/member.ts';
import { type Cleanup, tempDir } from '../../test/kit/temp.ts';

const PASSWORD = 'a long enough password';
const USERS = 32;
const CONNECTIONS = 64;

/** Rates with so many processes, one for each round. */
export interface Rates {
  readonly processes: number;
  readonly perSecond: readonly number[];
}

/** `GET /api/session` of many users at all processes in turn: behind a balancer that knows nothing, 1 - 1/N of them are asked elsewhere. */
export async function measureRequests(
  t: Cleanup,
  sizes: readonly number[],
  seconds: number,
  rounds: number,
): Promise<Rates[]> {
  const most = Math.max(...sizes);
  const cluster = await startCluster(t, { size: most, started: 1, env: { LOG_LEVEL: 'error' } });
  const folder = await tempDir(t);
  const tokens: string[] = [];
  for (let n = 0; n < USERS; n++) {
    await addUser(cluster.db, `user-${n}`, PASSWORD);
    const body = { username: `user-${n}`, password: PASSWORD };
    const { json } = await cluster.front.request('POST', '/api/login', { among: cluster.members.slice(0, 1), body });
    tokens.push(String(json.token));
  }
  const script = join(folder, 'users.lua');
  await writeFile(
    script,
    [
      `local tokens = {${tokens.map((token) => JSON.stringify(token)).join(', ')}}`,
      'local turn = 0',
      'request = function()',
      '  turn = turn + 1',
      '  return wrk.format("GET", "/api/session", { Authorization = "Bearer " .. tokens[turn % #tokens + 1] })',
      'end',
    ].join('\n'),
  );
  const rates: { processes: number; perSecond: number[] }[] = [];
  for (const processes of sizes) {
    const running = cluster.members.slice(0, processes);
    for (const member of running) if (member.pid === undefined) await member.start();
    await cluster.settled(running);
    await load(running, script, 1);
    const perSecond: number[] = [];
    for (let round = 0; round < rounds; round++) perSecond.push(await load(running, script, seconds));
    rates.push({ processes, perSecond });
  }
  return rates;
}

async function load(members: readonly Member[], script: string, seconds: number): Promise<number> {
  const connections = Math.max(1, Math.round(CONNECTIONS / members.length));
  const rates = await Promise.all(
    members.map(async ({ url }) => {
      const child = spawn('wrk', ['-t1', `-c${connections}`, `-d${seconds}s`, '-s', script, url]);
      let said = '';
      child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
        said += chunk;
      });
      await once(child, 'close');
      const [, count, took] = /(\d+) requests in ([\d.]+)s/.exec(said) ?? [];
      if (count === undefined || /Non-2xx|Socket errors/.test(said)) throw new Error(`wrk ${url}: ${said}`);
      return Number(count) / Number(took);
    }),
  );
  return rates.reduce((sum, rate) => sum + rate, 0);
}
