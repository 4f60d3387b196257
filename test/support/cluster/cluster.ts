/** Several processes of the real command line on a network of their own, with a real nats-server and a PostgreSQL. */

import { randomBytes } from 'node:crypto';
import { chmod, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { type Db, openDb } from '../../../storage/db.ts';
import { migrate, migrationsDir } from '../../../storage/migrate.ts';
import { skipWithoutNats, startNats, type TestNats } from '../bus/nats-server.ts';
import { startTestServer } from '../database/database.ts';
import { startPgBouncer } from '../database/pgbouncer.ts';
import { silentLog } from '../log.ts';
import { type Cleanup, tempDir } from '../temp.ts';
import { until } from '../until.ts';
import { type Front, startFront } from './balancing-client.ts';
import { SHARDS } from './chronicle.ts';
import { Member } from './member.ts';
import { type Cut, skipWithoutNetwork, startNetwork } from './network.ts';

/** For the `skip` option of tests that need a cluster. */
export function skipWithoutCluster(): string | false {
  return skipWithoutNats() || skipWithoutNetwork();
}

export interface ClusterOptions {
  /** How many processes. */
  readonly size: number;
  /** `auth` and the like: what each runs, `troupe <service>`. Default auth. */
  readonly service?: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly nodeArgs?: readonly string[];
  /** How many are started at once; the others by `member.start()`. Default: all. */
  readonly started?: number;
  /**
   * All processes work through PgBouncer with so many connections, and PostgreSQL accepts its default of 100: one of
   * each process, and those of the pooler and of the test. Default: no pooler.
   */
  readonly poolSize?: number;
}

export interface TestCluster {
  readonly members: readonly Member[];
  /** Of all members. */
  readonly front: Front;
  readonly nats: TestNats;
  /** From the test's own place: no cut reaches it. */
  readonly db: Db;
  readonly databaseUrl: string;
  /** Folder of the database server's socket. */
  readonly socketDir: string;
  readonly jwtSecret: string;
  /** What the processes reach NATS and PostgreSQL by, for cuts. */
  readonly broker: Pick<Cut, 'address' | 'port'>;
  readonly database: Pick<Cut, 'address' | 'port'>;
  /** Members that are well and hold shards, with the shards of each. */
  shards(): Promise<Map<Member, number[]>>;
  /** Until these members (default: all) hold all shards of the service. */
  settled(members?: readonly Member[]): Promise<void>;
}

const PORT = 7001;
const POOLER_PORT = 6432;
const shardRow = z.object({ address: z.string(), shard: z.int() });

/** Starts it; it ends with `t`. Rejects with the log of a process that does not come up. */
export async function startCluster(t: Cleanup, options: ClusterOptions): Promise<TestCluster> {
  const ends: (() => Promise<void> | void)[] = [];
  t.after(async () => {
    for (const end of ends) await end();
  });
  // The last that came goes first, also when the start fails half-way.
  return build({ after: (end) => void ends.unshift(end) }, options);
}

async function build(t: Cleanup, options: ClusterOptions): Promise<TestCluster> {
  const { size, service = 'auth', started = size, poolSize } = options;
  const network = await startNetwork(t);
  const folder = await tempDir(t);
  const access = join(folder, 'pg_hba.conf');
  await writeFile(access, `local all all trust\nhost all all ${network.subnet} trust\n`);
  // The server runs as another user.
  await Promise.all([chmod(folder, 0o755), chmod(access, 0o644)]);
  const server = await startTestServer({
    listen_addresses: network.broadcaster,
    hba_file: access,
    ...(poolSize === undefined ? {} : { max_connections: '100' }),
  });
  t.after(() => server.stop());
  const connection = { socketDir: server.socketDir, port: 5432, user: 'troupe', database: 'troupe' };
  const db = openDb(connection, { log: silentLog, name: 'test', max: 8 });
  t.after(() => db.close());
  await migrate(db, migrationsDir, silentLog);
  const nats = await startNats(t, { host: network.broadcaster });
  const databaseUrl = `postgresql://troupe@${network.broadcaster}:5432/troupe`;
  if (poolSize !== undefined) {
    const at = { host: network.broadcaster, port: 5432, user: 'troupe', database: 'troupe' };
    await startPgBouncer(t, { host: network.broadcaster, port: POOLER_PORT, server: at, poolSize });
  }
  const jwtSecret = randomBytes(32).toString('base64url');
  const program = {
    args: [service, '--addr', `0.0.0.0:${PORT}`, '--json'],
    env: {
      DATABASE_URL: databaseUrl,
      NATS_URL: nats.url,
      NATS_INSECURE: 'allow',
      JWT_SECRET: jwtSecret,
      ...options.env,
    },
    ...(options.nodeArgs === undefined ? {} : { nodeArgs: options.nodeArgs }),
  };
  const members: Member[] = [];
  for (let number = 1; number <= size; number++) {
    const place = await network.place();
    // The server sees the pooler's address: the writer's is in its application_name, which no process chooses itself.
    const pooled = {
      DATABASE_URL: `postgresql://troupe@${network.broadcaster}:${POOLER_PORT}/troupe?application_name=at+${place.address}`,
      DATABASE_DIRECT_URL: databaseUrl,
    };
    const env = poolSize === undefined ? program.env : { ...program.env, ...pooled };
    members.push(new Member(number, place, PORT, { ...program, env }));
  }
  t.after(async () => {
    await Promise.all(members.map((member) => member.kill()));
  });
  await Promise.all(members.slice(0, started).map((member) => member.start()));

  const shards = async () => {
    const rows = await db.many(
      shardRow,
      `select n.address, s.shard from placement_shards s join placement_nodes n on n.id = s.owner
       where s.service = $1 and n.expires_at > clock_timestamp()`,
      [service],
    );
    // A node calls itself <host>:<pid>.
    const byPid = new Map(members.map((member) => [String(member.pid), member]));
    const held = new Map<Member, number[]>();
    for (const { address, shard } of rows) {
      const member = byPid.get(address.slice(address.lastIndexOf(':') + 1));
      if (member !== undefined) held.set(member, [...(held.get(member) ?? []), shard]);
    }
    return held;
  };
  return {
    ...{ members, nats, db, databaseUrl, socketDir: server.socketDir, jwtSecret, shards },
    front: startFront(t, members),
    broker: { address: network.broadcaster, port: nats.port },
    database: { address: network.broadcaster, port: 5432 },
    settled: async (wanted = members) => {
      await until(
        async () => {
          const held = await shards();
          const all = [...held.values()].reduce((sum, list) => sum + list.length, 0);
          return (
            all === SHARDS &&
            // Somebody who came holds a few first; the hash gives one of fifty less than half of its share now and then.
            wanted.every((member) => (held.get(member)?.length ?? 0) > SHARDS / wanted.length / 4) &&
            held.size === wanted.length
          );
        },
        // Fifty that begin at once on two processors are slow to agree.
        { what: 'the members share all shards', timeoutMs: 60_000 + 5000 * wanted.length, everyMs: 100 },
      );
    },
  };
}
