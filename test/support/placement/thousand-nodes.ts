/** What many nodes cost their database: each of their statements is measured once, and multiplied by how often they make it. */
import { cpus, loadavg } from 'node:os';
import { z } from 'zod';
import type { BeatResult, NodeInfo, ShardLease } from '../../../proto/ports/placement.ts';
import { changedOutlines, containerOutlines } from '../../../storage/compute/outlines.ts';
import { type Db, openDb } from '../../../storage/db.ts';
import { changedContainers, containersAfter, containersSnapshot } from '../../../storage/gateway/routes.ts';
import { mappingSource } from '../../../storage/network/served-mappings.ts';
import { append } from '../../../storage/outbox.ts';
import { fence } from '../../../storage/placement/fence.ts';
import { leaseStore } from '../../../storage/placement/leases.ts';
import { TIMINGS } from '../../../supervision/placement/index.ts';
import { startTestServer, testDatabase } from '../database/database.ts';
import { silentLog } from '../log.ts';
import { processorMs } from '../processor.ts';
import { assigned } from './assigned.ts';

export interface ThousandNodes {
  readonly nodes: number;
  readonly users: number;
  readonly containers: number;
  /** Of each service. */
  readonly shards: number;
  /** How often each statement is made; a large one less. */
  readonly times: number;
}

/** What one statement costs, and how many of them all nodes make in a second. */
interface Cost {
  readonly what: string;
  readonly aSecond: number;
  readonly serverMs: number;
  readonly nodeMs: number;
  readonly walBytes: number;
  readonly answerBytes: number;
}

const ROLES = ['auth', 'compute', 'network', 'notify', 'outbox'];
const UNKNOWN = { stamp: '', mark: '' };
const LONG_MS = 600_000;
/** Nodes whose heartbeats are measured. */
const BEATING = 20;
/** Of a watcher and a gateway, ms. */
const LOOK_MS = 5000;
const SWEEP_MS = 60_000;
/** Containers that a gateway reads again with each look: at least so many, one of so many parts, at most so many. */
const GATEWAY_PAGE = 1000;
const GATEWAY_PAGES = 60;
const MAX_GATEWAY_PAGE = 2000;
/** One node in so many is a gateway. */
const NODES_A_GATEWAY = 10;
/** Writes of entities in a second over the whole cluster: each user once a day, and half as much again for containers. */
const WRITES_A_USER = 1.5 / 86_400;
/** Every node is restarted once a day; others hear that it drains, goes and comes. */
const RESTARTS_A_NODE = 1 / 86_400;
const NEWS_A_RESTART = 3;

/** Does `work` while the databases of tests are on a server of their own: what others do there would count. */
export async function onOwnServer<T>(work: () => Promise<T>): Promise<T> {
  const server = await startTestServer({ max_wal_size: '4GB' });
  const former = process.env.TROUPE_TEST_PG;
  process.env.TROUPE_TEST_PG = server.socketDir;
  try {
    return await work();
  } finally {
    if (former === undefined) delete process.env.TROUPE_TEST_PG;
    else process.env.TROUPE_TEST_PG = former;
    await server.stop();
  }
}

/** Fills a database, measures, and removes it. The lines are a table for people. */
export async function simulateNodes(size: ThousandNodes): Promise<{ costs: readonly Cost[]; lines: string[] }> {
  const database = await testDatabase();
  // One connection, so that its backend did all.
  const db = openDb(database.connection, { log: silentLog, name: 'soak', max: 1, limits: { statementMs: 1_800_000 } });
  try {
    await fill(db, size);
    const costs = await new Measurement(db, size).all();
    return { costs, lines: table(size, costs) };
  } finally {
    await db.close();
    await database.close();
  }
}

async function fill(db: Db, { users, containers }: ThousandNodes): Promise<void> {
  const step = 100_000;
  for (let from = 0; from < users; from += step) {
    await db.run(
      `insert into users (id, username, display_name, password_hash)
       select 'u' || substr(md5(n::text), 1, 11), 'user-' || n, 'A User', 'none'
       from generate_series($1::int, $2::int) n on conflict do nothing`,
      [from, Math.min(users, from + step) - 1],
    );
  }
  const columns =
    'id, user_id, slot, name, instance_type, memory_mb, storage_gb, pull_policy, mount_paths, ssh_enabled';
  for (let from = 0; from < containers; from += step) {
    await db.run(
      `with made as (
         insert into containers (${columns}, desired, status)
         select 'c' || substr(md5(n::text), 1, 11), 'u' || n / 3, 1 + n % 3, 'box', 'tiny', 512, 10, 'Always',
           '{/root}', true, 'running', 'running'
         from generate_series($1::int, $2::int) as n on conflict do nothing returning id
       )
       insert into ingress_rules (container_id, port, target_port) select id, 80, 8080 from made`,
      [from, Math.min(containers, from + step) - 1],
    );
  }
  for (let from = 0; from < containers; from += step) {
    await db.run(
      `insert into domain_mappings (id, user_id, domain, container_id, target_port, status, verify_token,
         pending_since, verified_at)
       select 'm' || substr(md5(n::text), 1, 11), 'u' || n / 3, 'host-' || n || '.example.org',
         'c' || substr(md5(n::text), 1, 11), 8080, 'verified', 'x', now(), now()
       from generate_series($1::int, $2::int) as n on conflict do nothing`,
      [from, Math.min(containers, from + step) - 1],
    );
  }
  await db.script('vacuum analyze users, containers, ingress_rules, domain_mappings');
}

/** One of each statement, on a cluster whose nodes all live and hold what they should. */
class Measurement {
  readonly #db: Db;
  readonly #size: ThousandNodes;
  readonly #infos: readonly NodeInfo[];
  readonly #costs: Cost[] = [];
  #pid = 0;

  constructor(db: Db, size: ThousandNodes) {
    this.#db = db;
    this.#size = size;
    this.#infos = Array.from({ length: size.nodes }, (_, n) => ({
      ...{ id: `n${n.toString(36).padStart(11, '0')}`, roles: ROLES, version: '0.1.0' },
      ...{ address: `host-${n}:12345`, draining: false, weight: 1 },
    }));
  }

  async all(): Promise<readonly Cost[]> {
    const backend = await this.#db.one(z.object({ pid: z.number() }), 'select pg_backend_pid() as pid');
    this.#pid = backend?.pid ?? 0;
    const leases = await this.#placement();
    await this.#containers();
    await this.#writes(leases);
    return this.#costs;
  }

  /** Heartbeats, a node that comes back, and the take-over of one that went. Returns what the first node holds. */
  async #placement(): Promise<ShardLease[]> {
    const { nodes, shards, times } = this.#size;
    const restarts = nodes * RESTARTS_A_NODE;
    const store = leaseStore(this.#db);
    const [first] = this.#infos;
    if (first === undefined) throw new RangeError('no nodes');
    const ids = this.#infos.map(({ id }) => id);
    for (const info of this.#infos) await store.beat(info, LONG_MS, UNKNOWN);
    const shares = new Map<string, { service: string; shard: number }[]>(ids.map((id) => [id, []]));
    for (const service of ROLES) {
      for (const [shard, id] of assigned(service, shards, ids).entries())
        shares.get(id ?? '')?.push({ service, shard });
    }
    let mine: ShardLease[] = [];
    for (const [id, share] of shares) {
      const leases = await store.take(id, share, shards);
      if (id === first.id) mine = leases;
    }
    await this.#db.run('vacuum analyze placement_nodes, placement_shards');
    // Each knows what its own last heartbeat told.
    const beating = this.#infos.slice(0, BEATING);
    const views = new Map<string, BeatResult>();
    for (const info of beating) views.set(info.id, await store.beat(info, LONG_MS, UNKNOWN));
    let at = 0;
    await this.#measure('heartbeat', (nodes * 1000) / TIMINGS.beatMs, times, async () => {
      const info = beating[at++ % beating.length] ?? first;
      const view = await store.beat(info, LONG_MS, views.get(info.id) ?? UNKNOWN);
      views.set(info.id, view);
      return view;
    });
    const view = await store.beat(first, LONG_MS, views.get(first.id) ?? UNKNOWN);
    // Each node that comes, drains or goes is news for every other one.
    await this.#measure('heartbeat with a list of nodes', NEWS_A_RESTART * nodes * restarts, times, () =>
      store.beat(first, LONG_MS, { stamp: 'other', mark: view.mark }),
    );
    await this.#measure('first heartbeat of a node', restarts, Math.min(times, 5), () =>
      store.beat(first, LONG_MS, UNKNOWN),
    );
    await this.#measure("take of a node's share", restarts, Math.min(times, 20), async () => {
      mine = await store.take(first.id, mine, shards);
      return mine;
    });
    return mine;
  }

  /** What watchers and gateways read. */
  async #containers(): Promise<void> {
    const { nodes, containers, shards, times } = this.#size;
    const own = assigned(
      'compute',
      shards,
      this.#infos.map(({ id }) => id),
    ).flatMap((id, shard) => (id === this.#infos[0]?.id ? [shard] : []));
    const held = { shards: own, count: shards };
    const { mark } = await containerOutlines(this.#db, held);
    await this.#measure('look of a watcher', (nodes * 1000) / LOOK_MS, times, () =>
      changedOutlines(this.#db, held, mark, []),
    );
    await this.#measure('sweep of a watcher', (nodes * 1000) / SWEEP_MS, Math.min(times, 20), () =>
      containerOutlines(this.#db, held),
    );
    const gateways = Math.ceil(nodes / NODES_A_GATEWAY);
    const looks = (gateways * 1000) / LOOK_MS;
    let since = await containersSnapshot(this.#db);
    await this.#measure('look of a gateway', looks, times, async () => {
      // Before it asks the engine, and after.
      for (let n = 0; n < 2; n++) {
        const snapshot = await containersSnapshot(this.#db);
        await changedContainers(this.#db, since, []);
        since = snapshot;
      }
      return since;
    });
    const page = Math.min(Math.max(GATEWAY_PAGE, Math.ceil(containers / GATEWAY_PAGES)), MAX_GATEWAY_PAGE);
    const few = Math.min(times, 20);
    await this.#measure('page of a gateway', looks, few, () => containersAfter(this.#db, 'c8', page));
    const mappings = mappingSource(this.#db, { onNews: () => ({ close: async () => {} }) });
    await this.#measure("page of a gateway's mappings", looks, few, () => mappings.after('host-5', page));
  }

  /** What entities write, and the event that goes with it. */
  async #writes(leases: readonly ShardLease[]): Promise<void> {
    const { users, times } = this.#size;
    const lease = leases[0];
    if (lease === undefined) throw new RangeError('the first node holds nothing');
    let n = 0;
    const write = (id: number, withEvent: boolean) =>
      this.#db.tx(async (tx) => {
        await fence(tx, lease);
        await tx.run("update users set display_name = 'Another' where username = $1", [`user-${id % users}`]);
        if (!withEvent) return;
        await append(tx, { msgId: `trial-${id}`, subject: 'trial', data: new TextEncoder().encode('{}') });
      });
    await this.#measure('fenced write', users * WRITES_A_USER, times, () => write(++n * 7919, false));
    await this.#measure('fenced write with an event', (users * WRITES_A_USER) / 3, times, () =>
      write(++n * 7919, true),
    );
  }

  async #measure(what: string, aSecond: number, times: number, work: () => Promise<unknown>): Promise<void> {
    const answer = await work();
    const before = await this.#walBytes();
    const [used, own] = [processorMs(this.#pid), process.cpuUsage()];
    for (let n = 0; n < times; n++) await work();
    const { user, system } = process.cpuUsage(own);
    const serverMs = (processorMs(this.#pid) - used) / times;
    const walBytes = ((await this.#walBytes()) - before) / times;
    const answerBytes = answer === undefined ? 0 : JSON.stringify(answer).length;
    this.#costs.push({ what, aSecond, serverMs, nodeMs: (user + system) / 1000 / times, walBytes, answerBytes });
  }

  async #walBytes(): Promise<number> {
    const row = await this.#db.one(
      z.object({ bytes: z.coerce.number() }),
      "select (pg_current_wal_insert_lsn() - '0/0')::text as bytes",
    );
    return row?.bytes ?? 0;
  }
}

function table({ nodes, users, containers, shards }: ThousandNodes, costs: readonly Cost[]): string[] {
  const lines = [
    `${nodes} nodes, ${users} users, ${containers} containers, ${shards} shards of ${ROLES.length} services; ` +
      `${cpus().length} processors, load ${(loadavg()[0] ?? 0).toFixed(1)}`,
    '',
    '| what | a second | server, each | node, each | log, each | answer, each | processors of the server | log a second |',
    '|---|---|---|---|---|---|---|---|',
  ];
  for (const { what, aSecond, serverMs, nodeMs, walBytes, answerBytes } of costs) {
    const cells = [
      ...[what, aSecond.toFixed(1), `${serverMs.toFixed(2)} ms`, `${nodeMs.toFixed(2)} ms`],
      ...[`${walBytes.toFixed(0)} B`, `${answerBytes} B`, ((aSecond * serverMs) / 1000).toFixed(2)],
      `${((aSecond * walBytes) / 1024).toFixed(0)} KiB`,
    ];
    lines.push(`| ${cells.join(' | ')} |`);
  }
  return lines;
}
