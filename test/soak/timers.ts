/**
 * What do a million timers of entities cost? The real store on a database of this machine (not durable: fsync is off).
 *
 * `npm run soak -- timers [TIMERS]`: what a look of a node takes beside so many timers, for several numbers of shards, and how late a
 * thousand a second come to the entities of one node.
 */
import { cpus, loadavg } from 'node:os';
import { z } from 'zod';
import { openDb } from '../../storage/db.ts';
import { leaseStore } from '../../storage/placement/leases.ts';
import { timerStore } from '../../storage/placement/timers.ts';
import { dispatch, entities, start, stop, stopped } from '../../supervision/index.ts';
import { Cluster, type PlacedKind } from '../../supervision/placement/index.ts';
import { MemoryBus } from '../../supervision/testing/index.ts';
import { startTestServer, testDatabase } from '../support/database/database.ts';
import { silentLog } from '../support/log.ts';
import { until } from '../support/until.ts';

const timers = Number(process.argv[2] ?? 1_000_000);
const SECONDS = 10;
const A_SECOND = 1000;
const out = (line: string) => process.stdout.write(`${line}\n`);
const share = (sorted: readonly number[], of: number) => sorted[Math.floor((sorted.length - 1) * of)]?.toFixed(1);

type Rang = { readonly at: number; readonly replyTo: Parameters<NonNullable<PlacedKind<never>['timer']>>[1] };
const BELL: PlacedKind<Rang> = {
  kind: 'soak/bell',
  service: 'soak',
  codec: {
    encode: () => {
      throw new TypeError('timers do not cross');
    },
    decode: () => {
      throw new TypeError('timers do not cross');
    },
  },
  timer: ({ at }, replyTo) => ({ at, replyTo }),
};

const server = await startTestServer();
process.env.TROUPE_TEST_PG = server.socketDir;
const database = await testDatabase();
const db = openDb(database.connection, { log: silentLog, name: 'soak', max: 8 });
try {
  out(`${timers} timers, ${cpus()[0]?.model ?? 'unknown'} x ${cpus().length}, load ${loadavg()[0]?.toFixed(1)}`);
  const began = performance.now();
  await db.run(
    `insert into entity_timers (service, kind, id, name, key, at, due, message)
     select 'soak', 'soak/bell', 'b' || n, 'ring', gen_random_uuid(), t, t, '0' from
       (select n, now() + interval '1 hour' + n * interval '1 millisecond' as t from generate_series(1, $1) n) s`,
    [timers],
  );
  await db.run('analyze entity_timers');
  const size = await db.one(
    z.object({ bytes: z.number() }),
    "select pg_total_relation_size('entity_timers')::float8 as bytes",
  );
  out(
    `written in ${((performance.now() - began) / 1000).toFixed(1)} s, ${Math.round((size?.bytes ?? 0) / timers)} B each`,
  );
  await looks();
  await rings();
} finally {
  await db.close();
  await database.close();
  await server.stop();
}

/** What it takes to find that nothing is due. */
async function looks(): Promise<void> {
  const store = timerStore(db);
  for (const [count, held] of [
    [256, 256],
    [256, 64],
    [4096, 4],
    [16_384, 16_384],
    [16_384, 16],
  ] as const) {
    const shards = Array.from({ length: held }, (_, n) => n);
    const took: number[] = [];
    for (let n = 0; n < 50; n++) {
      const began = performance.now();
      await store.due([{ service: 'soak', shards, count }], 1000, 5000);
      took.push(performance.now() - began);
    }
    took.sort((a, b) => a - b);
    out(`a look for ${held} of ${count} shards: median ${share(took, 0.5)} ms, p99 ${share(took, 0.99)} ms`);
  }
}

/** How late they come. */
async function rings(): Promise<void> {
  const system = start({ name: 'soak' });
  const self = { id: 'soak', roles: ['soak'], version: '1', address: 'soak' };
  const cluster = new Cluster({
    ...{ parent: system, self, store: leaseStore(db), timers: timerStore(db), bus: new MemoryBus(), log: silentLog },
  });
  const late: number[] = [];
  cluster.place(
    BELL,
    entities<Rang, null>(system, {
      kind: BELL.kind,
      sleepAfterMs: 1000,
      activate: () => null,
      handle: (state, { at, replyTo }) => {
        late.push(Date.now() - at);
        dispatch(replyTo, 'done');
        return state;
      },
    }),
  );
  await cluster.join();
  const wanted = SECONDS * A_SECOND;
  await db.run(
    `insert into entity_timers (service, kind, id, name, key, at, due, message)
     select 'soak', 'soak/bell', 'a' || n, 'ring', gen_random_uuid(), t, t, '0' from
       (select n, now() + interval '5 seconds' + n * interval '1 second' / $2 as t from generate_series(1, $1) n) s`,
    [wanted, A_SECOND],
  );
  const { user, system: kernel } = process.cpuUsage();
  await until(() => late.length >= wanted, { what: 'all came', timeoutMs: 60_000, everyMs: 100 });
  const used = process.cpuUsage();
  late.sort((a, b) => a - b);
  const processor = (used.user + used.system - user - kernel) / 1e6;
  out(
    `${late.length} of ${wanted} came, ${A_SECOND} a second: ${share(late, 0.5)} ms late, p99 ${share(late, 0.99)} ms`,
  );
  out(`processor of the node: ${((processor * 1000) / wanted).toFixed(2)} ms a timer`);
  await cluster.leave();
  stop(system);
  await stopped(system);
}
