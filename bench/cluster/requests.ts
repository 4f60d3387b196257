/** Requests a second of processes of the real command line, by wrk. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { AUTH_USER } from '../../actors/auth/users/placed.ts';
import { addUser } from '../../actors/auth/users/users.ts';
import { shardOf } from '../../supervision/placement/index.ts';
import { startCluster } from '../../test/support/cluster/cluster.ts';
import type { Member } from '../../test/support/cluster/member.ts';
import { type Cleanup, tempDir } from '../../test/support/temp.ts';
import { databaseSeconds, secondsOf } from './processor.ts';

const PASSWORD = 'a long enough password';
const USERS = 32;
const CONNECTIONS = 64;
const WARM_UP_SECONDS = 2;

interface User {
  readonly shard: number;
  readonly token: string;
}

interface Target {
  readonly member: Member;
  /** Of wrk. */
  readonly script: string;
}

/** With so many processes; each list has an entry a round. */
export interface Rates {
  readonly processes: number;
  /** Each request was sent to the process that holds its user, as by a balancer that hashes; otherwise to all in turn. */
  readonly isAtOwner: boolean;
  /** Requests that all connections together got answered in a second. */
  readonly perSecond: readonly number[];
  /** Processor time of all processes of the service for a request, µs. */
  readonly serviceUs: readonly number[];
  /** The same of nats-server and PostgreSQL. */
  readonly besideUs: readonly number[];
}

/**
 * `GET /api/session` of many users at all processes in turn: behind a balancer that knows nothing, 1 - 1/N of them are asked elsewhere. And at the
 * process that holds the user: none is.
 */
export async function measureRequests(
  t: Cleanup,
  sizes: readonly number[],
  seconds: number,
  rounds: number,
): Promise<Rates[]> {
  const most = Math.max(...sizes);
  const cluster = await startCluster(t, { size: most, started: 1, env: { LOG_LEVEL: 'error' } });
  const folder = await tempDir(t);
  const users: User[] = [];
  for (let n = 0; n < USERS; n++) {
    const { id } = await addUser(cluster.db, `user-${n}`, PASSWORD);
    const body = { username: `user-${n}`, password: PASSWORD };
    const { json } = await cluster.front.request('POST', '/api/login', { among: cluster.members.slice(0, 1), body });
    users.push({ shard: shardOf(AUTH_USER.kind, id), token: String(json.token) });
  }
  const rates: Rates[] = [];
  for (const processes of sizes) {
    const running = cluster.members.slice(0, processes);
    for (const member of running) if (member.pid === undefined) await member.start();
    await cluster.settled(running);
    const shards = await cluster.shards();
    for (const isAtOwner of processes === 1 ? [true] : [true, false]) {
      const targets: Target[] = [];
      for (const member of running) {
        const own = users.filter(({ shard }) => !isAtOwner || shards.get(member)?.includes(shard));
        if (own.length === 0) continue;
        targets.push({ member, script: join(folder, `users-${member.number}-${isAtOwner}.lua`) });
        await writeFile(targets.at(-1)?.script ?? '', scriptOf(own));
      }
      const pids = running.map(({ pid }) => pid);
      const beside = () => secondsOf([cluster.nats.pid]) + databaseSeconds(cluster.socketDir);
      const all: { readonly perSecond: number; readonly serviceUs: number; readonly besideUs: number }[] = [];
      // The compiler settles first, of each process.
      await load(targets, WARM_UP_SECONDS * processes);
      for (let round = 0; round < rounds; round++) {
        const [service, others] = [secondsOf(pids), beside()];
        const { count, perSecond } = await load(targets, seconds);
        const us = (used: number) => (used * 1e6) / count;
        all.push({ perSecond, serviceUs: us(secondsOf(pids) - service), besideUs: us(beside() - others) });
      }
      rates.push({
        ...{ processes, isAtOwner },
        perSecond: all.map(({ perSecond }) => perSecond),
        serviceUs: all.map(({ serviceUs }) => serviceUs),
        besideUs: all.map(({ besideUs }) => besideUs),
      });
    }
  }
  return rates;
}

/** Asks for the sessions of these users in turn. */
function scriptOf(users: readonly User[]): string {
  return [
    `local tokens = {${users.map(({ token }) => JSON.stringify(token)).join(', ')}}`,
    'local turn = 0',
    'request = function()',
    '  turn = turn + 1',
    '  return wrk.format("GET", "/api/session", { Authorization = "Bearer " .. tokens[turn % #tokens + 1] })',
    'end',
  ].join('\n');
}

async function load(
  targets: readonly Target[],
  seconds: number,
): Promise<{ readonly count: number; readonly perSecond: number }> {
  const connections = Math.max(1, Math.round(CONNECTIONS / targets.length));
  const rates = await Promise.all(
    targets.map(async ({ member: { url }, script }) => {
      const child = spawn('wrk', ['-t1', `-c${connections}`, `-d${seconds}s`, '-s', script, url]);
      let said = '';
      child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
        said += chunk;
      });
      await once(child, 'close');
      const [, count, took] = /(\d+) requests in ([\d.]+)s/.exec(said) ?? [];
      if (count === undefined || /Non-2xx|Socket errors/.test(said)) throw new Error(`wrk ${url}: ${said}`);
      return { count: Number(count), perSecond: Number(count) / Number(took) };
    }),
  );
  return {
    count: rates.reduce((sum, { count }) => sum + count, 0),
    perSecond: rates.reduce((sum, { perSecond }) => sum + perSecond, 0),
  };
}
