/**
 * What does it cost to prove a token or a password, beside the bare libraries that do the cryptography?
 *
 * `npm run bench -- auth [ROUNDS] [SECONDS]`: tokens through transports/api/authenticate.ts beside bare jose and bare HMAC, on one
 * core; logins through the real service on a real database beside bare argon2 with the same parameters and as many at once,
 * and the delay of the event loop meanwhile. Everything in one process, in turns; medians.
 */
import { createHmac, createSecretKey, timingSafeEqual } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { verify } from '@node-rs/argon2';
import { jwtVerify } from 'jose';
import { z } from 'zod';
import { hashPassword } from '../actors/auth/login/passwords.ts';
import { apiTokens, sessionTokens } from '../actors/auth/tokens/issue-tokens.ts';
import { login } from '../proto/auth/endpoints.ts';
import type { TokenDirectory } from '../proto/auth/tokens.ts';
import { newId } from '../proto/ids.ts';
import { tokenDirectory } from '../storage/auth/token-directory.ts';
import type { Db } from '../storage/db.ts';
import type { TestDatabase } from '../test/support/database/database.ts';
import { authenticator } from '../transports/api/authenticate.ts';

const SECRET = 'not a secret: '.repeat(4);
const PASSWORD = 'correct horse battery';
/** In flight at once, of everything that is asynchronous. */
const AT_ONCE = 64;
const USERS = 256;
const TOKENS = 512;
const clock = { now: Date.now };

/** One thing that is measured: its rates, a second each. */
interface Contender {
  readonly name: string;
  /** Work for so many seconds; resolves with how many were done. */
  readonly run: (seconds: number) => Promise<number>;
  readonly rates: number[];
  /** Delay of the event loop, 99th percentile, ms. */
  readonly delays: number[];
  /** Processor time of one, ms: of this process with all threads, and of the database. */
  readonly cpu: number[];
}

const contender = (name: string, run: Contender['run']): Contender => ({ name, run, rates: [], delays: [], cpu: [] });

async function main(rounds: number, seconds: number): Promise<void> {
  const { startTestServer, testDatabase } = await import('../test/support/database/database.ts');
  const server = await startTestServer();
  process.env.TROUPE_TEST_PG = server.socketDir;
  try {
    const database = await testDatabase();
    try {
      const postmaster = await postmasterOf(database.db);
      const userIds = await addUsers(database.db);
      const tokens = await tokenContenders(database.db, userIds);
      await inTurns(tokens, rounds, seconds / 2, postmaster);
      const { contenders, end } = await loginContenders(database);
      await inTurns(contenders, rounds, seconds * 2, postmaster);
      await end();
      report(tokens, contenders);
    } finally {
      await database.close();
    }
  } finally {
    await server.stop();
  }
}

async function inTurns(
  contenders: readonly Contender[],
  rounds: number,
  seconds: number,
  postmaster: number,
): Promise<void> {
  for (const { run } of contenders) await run(Math.min(1, seconds)); // Lets the compiler settle.
  for (let round = 0; round < rounds; round++) {
    for (const { run, rates, delays, cpu } of contenders) {
      // Its own timer counts: what is over its period is delay.
      const loop = monitorEventLoopDelay({ resolution: 1 });
      loop.enable();
      const [began, used] = [performance.now(), cpuMs(postmaster)];
      const count = await run(seconds);
      rates.push(count / ((performance.now() - began) / 1000));
      cpu.push((cpuMs(postmaster) - used) / count);
      loop.disable();
      delays.push(Math.max(0, loop.percentile(99) / 1e6 - 1));
    }
  }
}

/** The process all backends are children of. */
async function postmasterOf(db: Db): Promise<number> {
  const backend = await db.one(z.object({ pid: z.number() }), 'select pg_backend_pid() as pid');
  return statOf(backend?.pid ?? 0).parent;
}

/** Processor time of this process and of all living backends, ms. */
function cpuMs(postmaster: number): number {
  const { user, system } = process.cpuUsage();
  const backends = readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map((pid) => statOf(Number(pid)))
    .filter(({ parent }) => parent === postmaster);
  return (user + system) / 1000 + backends.reduce((sum, { ticks }) => sum + ticks * 10, 0);
}

/** proc(5); a tick is 10 ms. Zero elsewhere, and of a process that is gone. */
function statOf(pid: number): { parent: number; ticks: number } {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)?.split(' ') ?? [];
    return { parent: Number(fields[1]), ticks: Number(fields[11]) + Number(fields[12]) };
  } catch {
    return { parent: 0, ticks: 0 };
  }
}

// --------------------------------------------------------------------------------------------------------------- tokens

async function tokenContenders(db: Db, userIds: readonly string[]): Promise<Contender[]> {
  const directory = tokenDirectory(db);
  // One that knows everybody: what is left is our own work.
  const knows: TokenDirectory = { ...directory, knowsUser: async () => true };
  const issue = sessionTokens(SECRET, 3600, clock);
  const issueApi = apiTokens(SECRET, clock);
  const sessions: string[] = [];
  const robots: string[] = [];
  for (let i = 0; i < TOKENS; i++) {
    const userId = userIds[i % userIds.length] ?? '';
    sessions.push((await issue({ id: userId, username: `user-${i}`, isAdmin: false })).token);
    const tokenId = newId();
    await db.run(`insert into api_tokens (id, user_id, name, scopes) values ($1, $2, 'bench', '{}')`, [
      tokenId,
      userId,
    ]);
    robots.push(await issueApi({ tokenId, userId, expiresAt: undefined }));
  }
  const key = createSecretKey(Buffer.from(SECRET, 'utf8'));

  /** Each token once, then all forgotten. */
  const firstSight = (list: readonly string[], from: TokenDirectory) => async (seconds: number) => {
    const { authenticate, forget } = authenticator({ secret: SECRET, clock, directory: from });
    return manyAtOnce(seconds, async (i) => {
      if (i % list.length === 0) forget({ kind: 'all' });
      proven(await authenticate(list[i % list.length] ?? ''));
    });
  };
  const seen = async (list: readonly string[]) => {
    const { authenticate } = authenticator({ secret: SECRET, clock, directory });
    for (const token of list) proven(await authenticate(token));
    return (seconds: number) => oneByOne(seconds, (i) => proven(authenticate(list[i % list.length] ?? '')));
  };
  return [
    contender('session, seen before', await seen(sessions)),
    contender('API token, seen before', await seen(robots)),
    contender('session, first sight', firstSight(sessions, directory)),
    contender('API token, first sight', firstSight(robots, directory)),
    contender('session, first sight, no database', firstSight(sessions, knows)),
    contender('bare jose', (seconds) =>
      manyAtOnce(seconds, async (i) => {
        proven((await jwtVerify(sessions[i % TOKENS] ?? '', key, { algorithms: ['HS256'] })).payload);
      }),
    ),
    contender('bare HMAC', (seconds) =>
      oneByOne(seconds, (i) => {
        const token = sessions[i % TOKENS] ?? '';
        const dot = token.lastIndexOf('.');
        const mac = createHmac('sha256', key).update(token.slice(0, dot)).digest();
        if (timingSafeEqual(mac, Buffer.from(token.slice(dot + 1), 'base64url')))
          proven(JSON.parse(Buffer.from(token.slice(token.indexOf('.') + 1, dot), 'base64url').toString()));
      }),
    ),
  ];
}

function proven(value: unknown): void {
  if (value === undefined || value instanceof Promise) throw new Error('A token was not proven, or not at once.');
}

// --------------------------------------------------------------------------------------------------------------- logins

async function addUsers(db: Db): Promise<string[]> {
  const passwordHash = await hashPassword(PASSWORD);
  const ids = Array.from({ length: USERS }, () => newId());
  for (const [i, id] of ids.entries())
    await db.run('insert into users (id, username, display_name, password_hash) values ($1, $2, $2, $3)', [
      ...[id, `user-${i}`, passwordHash],
    ]);
  return ids;
}

async function loginContenders(database: TestDatabase): Promise<{ contenders: Contender[]; end: () => Promise<void> }> {
  const { openService } = await import('../test/support/service/open-service.ts');
  const passwordHash = await hashPassword(PASSWORD);
  const { service, end } = await openService({ after: () => {} }, 'auth', () => ({}), { database });
  /** A user logs in from an address of theirs; four share a network. */
  const logIn = (i: number, network: string) =>
    service.call(login, {
      ...{ caller: undefined, params: {}, query: {}, requestId: 'bench', address: `${network}.${(i % USERS) >> 2}` },
      body: { username: `user-${i % USERS}`, password: PASSWORD },
    });
  let fresh = 0;
  const contenders = [
    contender('login where the user has been', (seconds) =>
      manyAtOnce(seconds, async (i) => proven(await logIn(i, '10.0.0'))),
    ),
    contender('login from a new network', (seconds) =>
      manyAtOnce(seconds, async (i) => {
        if (i % USERS === 0) fresh++;
        proven(await logIn(i, `10.${1 + (fresh >> 8)}.${fresh & 255}`));
      }),
    ),
    contender('bare argon2', (seconds) =>
      manyAtOnce(seconds, async () => {
        if (!(await verify(passwordHash, PASSWORD))) throw new Error('The password is not verified.');
      }),
    ),
  ];
  return { contenders, end };
}

// -------------------------------------------------------------------------------------------------------------- running

async function manyAtOnce(seconds: number, work: (i: number) => Promise<void>): Promise<number> {
  const until = performance.now() + seconds * 1000;
  let [next, done] = [0, 0];
  const worker = async () => {
    while (performance.now() < until) {
      await work(next++);
      done++;
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  return done;
}

async function oneByOne(seconds: number, work: (i: number) => void): Promise<number> {
  const until = performance.now() + seconds * 1000;
  let done = 0;
  while (performance.now() < until) for (let i = 0; i < 500; i++) work(done++);
  return done;
}

// ------------------------------------------------------------------------------------------------------------ the report

function report(tokens: readonly Contender[], logins: readonly Contender[]): void {
  const value = (list: readonly Contender[], name: string, of: 'rates' | 'delays' | 'cpu', digits: number) =>
    Number(median(list.find((one) => one.name === name)?.[of] ?? []).toFixed(digits));
  const rows = [
    ...tokens.slice(0, 5).map(({ name }) => ({
      ...{ row: name, unit: 'tokens/s', ours: value(tokens, name, 'rates', 0) },
      peers: { jose: value(tokens, 'bare jose', 'rates', 0), hmac: value(tokens, 'bare HMAC', 'rates', 0) },
    })),
    ...logins.slice(0, 2).map(({ name }) => ({
      ...{ row: name, unit: 'logins/s', ours: value(logins, name, 'rates', 1) },
      peers: { argon2: value(logins, 'bare argon2', 'rates', 1) },
    })),
    ...logins.slice(0, 2).map(({ name }) => ({
      ...{ row: `${name}: processor time`, unit: 'ms', ours: value(logins, name, 'cpu', 2) },
      peers: { argon2: value(logins, 'bare argon2', 'cpu', 2) },
    })),
    ...logins.slice(0, 2).map(({ name }) => ({
      ...{ row: `${name}: loop delay`, unit: 'ms, p99', ours: value(logins, name, 'delays', 2) },
      peers: { argon2: value(logins, 'bare argon2', 'delays', 2) },
    })),
  ];
  const line = (...cells: (string | number)[]) =>
    `${cells.map((cell, i) => (i === 0 ? String(cell).padEnd(46) : String(cell).padStart(11))).join('')}\n`;
  process.stdout.write(line('', 'unit', 'ours', 'peer', 'ours/peer', ''));
  for (const { row, unit, ours, peers } of rows) {
    for (const [name, peer] of Object.entries(peers))
      process.stdout.write(line(row, unit, ours, peer, (ours / peer).toFixed(2), `  ${name}`));
  }
  const machine = `${cpus()[0]?.model ?? 'unknown'} x${cpus().length}, node ${process.version}`;
  process.stdout.write(`${JSON.stringify({ bench: 'auth', machine, atOnce: AT_ONCE, rows })}\n`);
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}

const [rounds = '5', seconds = '2'] = process.argv.slice(2);
await main(Number(rounds), Number(seconds));
