/** Processes of services on this machine, several of each, on one database, nats-server and Docker Engine: `troupe auth` and the like. */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { z } from 'zod';
import { sessionTokens } from '../../../actors/auth/tokens/issue-tokens.ts';
import { addUser } from '../../../actors/auth/users/users.ts';
import { newId } from '../../../proto/ids.ts';
import type { Db } from '../../../storage/db.ts';
import { listServiceShards } from '../../../storage/placement/nodes.ts';
import type { ServiceWithRole } from '../../../storage/rights.ts';
import { getOrCreateSetting } from '../../../storage/settings.ts';
import { skipWithoutNats, startNats, type TestNats } from '../bus/nats-server.ts';
import { testDatabase } from '../database/database.ts';
import { startTransactionPooler } from '../database/transaction-pooler.ts';
import { skipWithoutDocker, tinyImage } from '../engine/docker-client.ts';
import { type Cleanup, freePort, tempDir } from '../temp.ts';
import { until } from '../until.ts';
import type { Target } from './balancing-client.ts';
import { SHARDS } from './chronicle.ts';
import { firstLine, troupeCommand } from './platform.ts';

/** For the `skip` option of tests that need such processes. */
export function skipWithoutServices(): string | false {
  return skipWithoutDocker() || skipWithoutNats();
}

/** What can be run. */
export type ServiceName = ServiceWithRole;

/** Somebody who is logged in. */
export interface Person {
  readonly id: string;
  readonly username: string;
  readonly token: string;
}

/** What the processes share. What is given to `after` ends before all that stands there by then, in reverse. */
export interface Ground extends Cleanup {
  readonly db: Db;
  /** The owner's, for commands: each process has the role of its service. */
  readonly databaseUrl: string;
  readonly nats: TestNats;
  /** Parent domain of all host names. */
  readonly domain: string;
  /** Starts a process of the service, which ends with the test. */
  start(name: ServiceName): Promise<ServiceProcess>;
  /** Adds a user; the token is a session's. */
  person(username: string): Promise<Person>;
  /** Until as many processes as these hold all shards of their services. */
  settled(...names: readonly ServiceName[]): Promise<void>;
}

const DOMAIN = 'cloud.test';
export const GROUND_PASSWORD = 'a long enough password';
/** JWT_SECRET of all processes. */
export const GROUND_SECRET = 'the shared secret of this test, over 32 bytes';
const START_MS = 120_000;
const MAX_LOG = 1 << 20;
/** Roles whose entities are placed. */
const PLACED: readonly string[] = ['auth', 'compute'];

/**
 * Lays the ground: a database with a role for each service, a nats-server, secrets; no process yet. `more`: environment of all
 * processes. `isPooled`: they reach the database through a pooler in transaction mode.
 */
export async function layGround(
  t: Cleanup,
  more: Readonly<Record<string, string>> = {},
  { isPooled = false }: { readonly isPooled?: boolean } = {},
): Promise<Ground> {
  // In reverse: what runs ends before what it stands on.
  const ends: (() => Promise<void> | void)[] = [];
  const running: ServiceProcess[] = [];
  t.after(async () => {
    for (const end of ends) await end();
    // Roles suffice, whatever the test looks at.
    for (const { name, log } of running) assert.doesNotMatch(log, /permission denied for/, `the role of ${name}`);
  });
  const after: Cleanup = { after: (end) => void ends.unshift(end) };
  const database = await testDatabase();
  after.after(() => database.close());
  const { db } = database;
  const roles = await database.serviceRoles();
  const pooler = isPooled ? await startTransactionPooler(after, database.connection) : undefined;
  const urlsOf = (name: ServiceName) => ({
    DATABASE_URL: pooler?.urlOf(roles.connectionOf(name)) ?? roles.urlOf(name),
    DATABASE_DIRECT_URL: pooler === undefined ? '' : roles.urlOf(name),
  });
  // As the first service that looks after containers does.
  await getOrCreateSetting(db, 'installation', newId);
  const nats = await startNats(after);
  const folder = await tempDir(after);
  const jwtSecret = GROUND_SECRET;
  const env = {
    // Tests change more in a minute than people do.
    CHANGES_BURST: '100000',
    ...{ NATS_URL: nats.url, NATS_INSECURE: 'allow', PLATFORM_DOMAIN: DOMAIN },
    DEFAULT_IMAGE: more.DEFAULT_IMAGE ?? (await tinyImage()),
    ...{ JWT_SECRET: jwtSecret, ENCRYPTION_KEY: Buffer.alloc(32, 7).toString('base64'), LOG_LEVEL: 'info' },
    // Nobody is there: names of the tests are no business of real servers.
    DNS_RESOLVERS: '127.0.0.1:9',
    ...more,
  };
  const issue = sessionTokens(jwtSecret, 3600, { now: Date.now });
  return {
    ...{ ...after, db, databaseUrl: database.url, nats, domain: DOMAIN },
    start: async (name) => {
      const port = await freePort();
      const own = { ...urlsOf(name), ...env };
      const process = new ServiceProcess(name, port, await argsOf(name, port, folder), own);
      running.push(process);
      after.after(() => process.kill());
      await process.start();
      return process;
    },
    person: async (username) => {
      const { id } = await addUser(db, username, GROUND_PASSWORD);
      return { id, username, token: (await issue({ id, username, isAdmin: false })).token };
    },
    settled: async (...names) => {
      for (const name of names.length === 0 ? PLACED : names) {
        const count = running.filter((one) => one.name === name && one.isRunning).length;
        await until(
          async () => {
            const shards = (await listServiceShards(db)).find(({ service }) => service === name);
            return count === 0 || (shards?.held === SHARDS && (await holders(db, name)) === count);
          },
          { what: `${count} processes of ${name} share all shards`, timeoutMs: 60_000, everyMs: 100 },
        );
      }
    },
  };
}

async function argsOf(name: ServiceName, port: number, folder: string): Promise<string[]> {
  if (name !== 'gateway') return [name, '--addr', `127.0.0.1:${port}`, '--json'];
  const others = await Promise.all(
    ['https', 'ssh', 'net'].map(async (kind) => [`--${kind}-port`, `${await freePort()}`]),
  );
  const own = ['--listen', '127.0.0.1', '--data', join(folder, `gateway-${port}`), '--http-port', `${port}`];
  return [name, '--json', ...own, ...others.flat()];
}

async function holders(db: Db, service: string): Promise<number> {
  const row = z.object({ count: z.coerce.number() });
  const found = await db.one(
    row,
    `select count(distinct s.owner) as count from placement_shards s join placement_nodes n on n.id = s.owner
     where s.service = $1 and n.expires_at > clock_timestamp()`,
    [service],
  );
  return found?.count ?? 0;
}

/** One process, on the same port whenever it runs. */
export class ServiceProcess implements Target {
  readonly name: ServiceName;
  readonly port: number;
  /** `http://127.0.0.1:<port>` */
  readonly url: string;
  readonly #args: readonly string[];
  #env: Readonly<Record<string, string>>;
  #child: ChildProcess | undefined;
  #log = '';

  constructor(name: ServiceName, port: number, args: readonly string[], env: Readonly<Record<string, string>>) {
    this.name = name;
    this.port = port;
    this.url = `http://127.0.0.1:${port}`;
    this.#args = args;
    this.#env = env;
  }

  get isRunning(): boolean {
    return this.#child !== undefined;
  }

  get pid(): number | undefined {
    return this.#child?.pid;
  }

  /** Of a gateway: its networking API, as only this machine reaches it. */
  get net(): Target {
    return { url: `http://127.0.0.1:${this.#portOf('net')}` };
  }

  /** Of a gateway: the port of its SSH listener. */
  get sshPort(): string {
    return this.#portOf('ssh');
  }

  /** Of a gateway: its HTTPS listener. */
  get https(): Target {
    return { url: `https://127.0.0.1:${this.#portOf('https')}` };
  }

  /** Whether a balancer that asks may send something to it. */
  async isReady(): Promise<boolean> {
    const url = `${this.url}/${this.name === 'gateway' ? 'readyz' : 'healthz'}`;
    return (
      this.isRunning &&
      (await fetch(url, { signal: AbortSignal.timeout(2000) }).then(
        ({ ok }) => ok,
        () => false,
      ))
    );
  }

  /** What its processes wrote to standard error, the newest part. */
  get log(): string {
    return this.#log;
  }

  /** Starts it; resolves once it serves. Rejects with its log when it ends before. */
  async start(): Promise<void> {
    const [program = '', ...rest] = troupeCommand(this.#args);
    const child = spawn(program, rest, {
      env: { ...process.env, ...this.#env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.#child = child;
    child.stderr.on('data', (chunk: Buffer) => {
      this.#log = `${this.#log}${chunk}`.slice(-MAX_LOG);
    });
    child.once('close', () => {
      if (this.#child === child) this.#child = undefined;
    });
    if ((await firstLine(child, START_MS)) !== undefined) return;
    await this.kill();
    throw new Error(`troupe ${this.name} did not come up:\n${this.#log.slice(-4000)}`);
  }

  /** Changes the environment of later starts. */
  configure(more: Readonly<Record<string, string>>): void {
    this.#env = { ...this.#env, ...more };
  }

  /** SIGTERM; its exit code. */
  stop(): Promise<number | null> {
    return this.#end('SIGTERM');
  }

  /** SIGKILL. */
  async kill(): Promise<void> {
    await this.#end('SIGKILL');
  }

  #portOf(kind: string): string {
    return this.#args[this.#args.indexOf(`--${kind}-port`) + 1] ?? '';
  }

  async #end(signal: 'SIGTERM' | 'SIGKILL'): Promise<number | null> {
    const child = this.#child;
    if (child === undefined) return null;
    const ended = once(child, 'close');
    child.kill(signal);
    const [code] = await ended;
    return typeof code === 'number' ? code : null;
  }
}
