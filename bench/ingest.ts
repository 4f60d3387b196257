/**
 * How many notifications a second come from the stream into rows, beside bare inserts?
 *
 * `npm run bench -- ingest [ROUNDS] [MESSAGES]`. 20,000 notifications to 1,000 users, on a PostgreSQL that syncs: through JetStream of a nats-server, through the
 * embedded bus, which keeps its stream in the same database, and from a bus that costs nothing, which is what the service itself can do. Beside
 * them bare inserts of the same columns by batches of 1,000 on one connection, into the same table and into a plain one. Rates are from the first
 * fetch to the last acknowledgement. Processor time is of this process, of PostgreSQL and of nats-server together: on a machine that is busy
 * with other work it says more than the rate.
 */

import { readdirSync, readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { cpus, tmpdir } from 'node:os';
import { join } from 'node:path';
import { z } from 'zod';
import { type NotifyNumbers, notifyNumbers } from '../actors/notify/deps.ts';
import { startNotify } from '../actors/notify/service.ts';
import { newId } from '../proto/ids.ts';
import { NOTIFICATIONS_STREAM, notificationEvent } from '../proto/notify/notification.ts';
import type { Bus, StreamMessage } from '../proto/ports/bus.ts';
import { DEFAULT_USER_LIMITS } from '../proto/user-limits.ts';
import { deadLetterSink } from '../storage/bus/dead-letters.ts';
import { streamStore } from '../storage/bus/store.ts';
import { type Db, openDb } from '../storage/db.ts';
import { startEmbedded } from '../storage/embedded/server.ts';
import { migrate, migrationsDir } from '../storage/migrate.ts';
import { start, stop, stopped } from '../supervision/index.ts';
import { BUS_SECRET, startNats, type TestNats } from '../test/support/bus/nats-server.ts';
import { silentLog } from '../test/support/log.ts';
import { findProgram } from '../test/support/require.ts';
import { until } from '../test/support/until.ts';
import { embeddedBus } from '../transports/bus/embedded.ts';
import { natsBus } from '../transports/bus/nats.ts';

const MESSAGES = Number(process.argv[3]) || 20_000;
const USERS = 1000;
const BATCH = 1000;
/** Messages that the bus that costs nothing hands out at once. */
const AT_ONCE = 250;

type Event = ReturnType<typeof notificationEvent>;

/** Rates a second, medians of `rounds`, measured in turns. */
async function pipeline(rounds: number) {
  const folder = await mkdtemp(join(tmpdir(), 'troupe-bench-'));
  const server = await startEmbedded({ dataDir: join(folder, 'data'), log: silentLog });
  const db = openDb(server.connection, { log: silentLog, name: 'bench', max: 8 });
  const ends: (() => unknown)[] = [];
  const nats =
    findProgram('nats-server') === undefined ? undefined : await startNats({ after: (end) => void ends.unshift(end) });
  try {
    await migrate(db, migrationsDir, silentLog);
    const userIds = Array.from({ length: USERS }, newId);
    await db.run(
      `insert into users (id, username, display_name, password_hash) select id, id, id, 'none' from unnest($1::text[]) as new (id)`,
      [userIds],
    );
    await db.script('create table plain (like notifications including identity including defaults)');
    const cpu = await processorTime(db, nats?.pid);
    const measured = new Map<string, Took[]>();
    let began = { at: 0, cpu: cpu() };
    let isCounted = false;
    const clock: Stopwatch = {
      start: () => {
        began = { at: performance.now(), cpu: cpu() };
      },
      stop: (name) => {
        const used = cpu();
        const [own, postgres, nats] = [0, 1, 2].map((at) => ((used[at] ?? 0) - (began.cpu[at] ?? 0)) / MESSAGES);
        const rate = MESSAGES / ((performance.now() - began.at) / 1000);
        const took = { rate, own: own ?? 0, postgres: postgres ?? 0, nats: nats ?? 0 };
        if (isCounted) measured.set(name, [...(measured.get(name) ?? []), took]);
      },
    };
    for (let round = 0; round <= rounds; round++) {
      // The first round lets the compiler settle.
      isCounted = round > 0;
      await throughEmbedded(db, events(userIds), clock);
      if (nats !== undefined) await throughNats(db, nats, events(userIds), clock);
      await db.script('truncate notifications');
      await service(db, events(userIds), clock);
      await db.script('truncate notifications');
      await bare(db, 'notifications', userIds, clock);
      await bare(db, 'plain', userIds, clock);
      await db.script('truncate notifications, plain, bus_messages, bus_message_ids');
      await db.run('vacuum analyze');
    }
    const of = (name: string, value: (took: Took) => number) =>
      measured
        .get(name)
        ?.map(value)
        .toSorted((a, b) => a - b)[Math.floor(rounds / 2)] ?? 0;
    const rows = (name: string, row: string, isPublish = false) =>
      measured.has(name)
        ? VALUES.map(({ of: value, what, unit, digits }) => {
            const one = (of_: string) => Number(of(of_, value).toFixed(digits));
            const peers = { 'bare inserts, same table': one('same'), 'bare inserts, plain table': one('plain') };
            return { row: `${row}${what}`, unit, ours: one(name), peers: isPublish ? {} : peers };
          })
        : [];
    return [
      ...rows('service', 'service alone'),
      ...rows('embedded', 'embedded bus, all of it'),
      ...rows('nats', 'JetStream, all of it'),
      ...rows('appends', 'publish, JetStream', true),
      ...rows('publish', 'publish, embedded bus', true),
    ];
  } finally {
    for (const end of ends) await end();
    await db.close();
    await server.stop({ force: true });
    await rm(folder, { recursive: true, force: true });
  }
}

function events(userIds: readonly string[]): Event[] {
  return Array.from({ length: MESSAGES }, (_, index) =>
    notificationEvent('bench', Date.now(), {
      ...{ userId: userIds[(index * 7919) % USERS] ?? '', title: 'Container started', message: '"web" is running.' },
      ...{ link: '/containers/abcdefghijk1', category: 'compute', scope: '' },
    }),
  );
}

/** A rate a second, and processor time a message, us: of this process, of PostgreSQL's and of nats-server. */
interface Took {
  readonly rate: number;
  readonly own: number;
  readonly postgres: number;
  readonly nats: number;
}

const VALUES: readonly { of(took: Took): number; what: string; unit: string; digits: number }[] = [
  { of: ({ rate }) => rate, what: '', unit: 'messages/s', digits: 0 },
  { of: ({ own, postgres, nats }) => own + postgres + nats, what: ', processor', unit: 'us/message', digits: 1 },
  { of: ({ own }) => own, what: ', of it this process', unit: 'us/message', digits: 1 },
  { of: ({ postgres }) => postgres, what: ', of it PostgreSQL', unit: 'us/message', digits: 1 },
];

/** Measures what happens between `start` and `stop`. */
interface Stopwatch {
  start(): void;
  stop(name: string): void;
}

/** Reads the processor time, us, that this process, PostgreSQL's processes and nats-server have used so far, in this order. */
async function processorTime(db: Db, natsPid: number | undefined): Promise<() => readonly number[]> {
  const pid = (await db.one(z.object({ pid: z.number() }), 'select pg_backend_pid() as pid'))?.pid ?? 0;
  const postmaster = statOf(String(pid))?.parent;
  // What ended meanwhile (a worker of autovacuum) has used what it had used when it was seen last.
  const ofServer = new Map<string, number>();
  return () => {
    const { user, system } = process.cpuUsage();
    let ofNats = 0;
    for (const entry of readdirSync('/proc')) {
      if (!/^\d+$/.test(entry)) continue;
      const stat = statOf(entry);
      if (stat !== undefined && stat.parent === postmaster) ofServer.set(entry, stat.ticks);
      else if (entry === String(natsPid)) ofNats = stat?.ticks ?? 0;
    }
    const ofPostgres = [...ofServer.values()].reduce((sum, ticks) => sum + ticks, 0);
    return [user + system, ofPostgres * 10_000, ofNats * 10_000];
  };
}

/** Parent and used clock ticks (proc(5)); undefined when the process is gone. */
function statOf(pid: string): { parent: string; ticks: number } | undefined {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)?.split(' ') ?? [];
    return { parent: fields[1] ?? '', ticks: Number(fields[11]) + Number(fields[12]) };
  } catch {
    return undefined;
  }
}

const pending = z.object({ count: z.number() });

/** Publishes all, then consumes all: publish, and from the first fetch to the last acknowledgement. */
async function throughEmbedded(db: Db, all: readonly Event[], clock: Stopwatch): Promise<void> {
  const bus = embeddedBus({ store: streamStore(db), log: silentLog });
  try {
    await bus.ensureStream(NOTIFICATIONS_STREAM);
    clock.start();
    for (let at = 0; at < all.length; at += 5000)
      await Promise.all(
        all.slice(at, at + 5000).map(({ subject, data, msgId }) => bus.append(subject, data, { msgId })),
      );
    clock.stop('publish');
    clock.start();
    await whileServing(db, bus, async (numbers) => {
      await until(() => numbers.stored >= MESSAGES, { timeoutMs: 120_000, everyMs: 10 });
      const acked = async () => (await db.one(pending, 'select count(*) as count from bus_deliveries'))?.count === 0;
      await until(acked, { timeoutMs: 10_000, everyMs: 10 });
    });
    clock.stop('embedded');
  } finally {
    await bus.close();
  }
}

async function throughNats(db: Db, nats: TestNats, all: readonly Event[], clock: Stopwatch): Promise<void> {
  const deadLetters = deadLetterSink(db);
  const bus = natsBus({
    secret: BUS_SECRET,
    address: { servers: [nats.server] },
    name: 'bench',
    deadLetters,
    log: silentLog,
  });
  try {
    await bus.ensureStream(NOTIFICATIONS_STREAM);
    clock.start();
    for (let at = 0; at < all.length; at += 5000)
      await Promise.all(
        all.slice(at, at + 5000).map(({ subject, data, msgId }) => bus.append(subject, data, { msgId })),
      );
    clock.stop('appends');
    clock.start();
    await whileServing(db, bus, async (numbers) => {
      await until(() => numbers.stored >= MESSAGES, { timeoutMs: 120_000, everyMs: 10 });
    });
    // The service ends after its last acknowledgement.
    clock.stop('nats');
  } finally {
    await bus.close();
  }
}

/** The same from a bus that has everything at hand and takes answers at once. */
async function service(db: Db, all: readonly Event[], clock: Stopwatch): Promise<void> {
  let acked = 0;
  const never = () => Promise.reject(new Error('The benchmark does not ask for this.'));
  const bus: Bus = {
    publish: () => {},
    subscribe: () => ({ close: async () => {} }),
    request: never,
    ensureStream: async () => {},
    append: never,
    close: async () => {},
    consume: async (_stream, { maxAckPending }, handler) => {
      const feeding = (async () => {
        clock.start();
        // As of a bus, where those that leave together share one.
        const taken = Promise.resolve();
        const ack = () => {
          acked += 1;
          return taken;
        };
        const handling: Promise<void>[] = [];
        for (let at = 0; at < all.length; at += AT_ONCE) {
          const batch = all.slice(at, at + AT_ONCE);
          handling.push(
            handler(
              batch.map(
                ({ subject, data }, index): StreamMessage => ({
                  ...{ subject, data, seq: at + index, deliveryCount: 1 },
                  ...{ ack, nak: never, term: never },
                }),
              ),
            ),
          );
          if (handling.length >= maxAckPending / AT_ONCE) await handling.shift();
          // What comes from a socket comes a turn at a time.
          await new Promise((resolve) => setImmediate(resolve));
        }
        await Promise.all(handling);
      })();
      return { close: () => feeding };
    },
  };
  await whileServing(db, bus, async () => {
    await until(() => acked >= MESSAGES, { timeoutMs: 120_000, everyMs: 10 });
    clock.stop('service');
  });
}

async function whileServing(db: Db, bus: Bus, work: (numbers: NotifyNumbers) => Promise<void>): Promise<void> {
  const system = start({ log: silentLog });
  const numbers = notifyNumbers();
  try {
    await startNotify(system, {
      db,
      bus,
      log: silentLog,
      clock: { now: Date.now },
      numbers,
      userLimits: DEFAULT_USER_LIMITS,
      deliveries: undefined,
    });
    await work(numbers);
  } finally {
    stop(system);
    await stopped(system);
  }
}

/** Inserts the same columns by batches on one connection, and nothing else. */
async function bare(
  db: Db,
  table: 'notifications' | 'plain',
  userIds: readonly string[],
  clock: Stopwatch,
): Promise<void> {
  const all = Array.from({ length: MESSAGES }, (_, index) => ({
    userId: userIds[(index * 7919) % USERS] ?? '',
    eventId: newId() + newId() + newId(),
  }));
  clock.start();
  for (let at = 0; at < MESSAGES; at += BATCH) {
    const batch = all.slice(at, at + BATCH);
    await db.run(
      `insert into ${table} (user_id, event_id, title, message, link, category, scope, created_at)
       select *, now() from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[])`,
      [
        batch.map(({ userId }) => userId),
        batch.map(({ eventId }) => eventId),
        batch.map(() => 'Container started'),
        batch.map(() => '"web" is running.'),
        batch.map(() => '/containers/abcdefghijk1'),
        batch.map(() => 'compute'),
        batch.map(() => ''),
      ],
    );
  }
  clock.stop(table === 'plain' ? 'plain' : 'same');
}

const rows = await pipeline(Number(process.argv[2]) || 5);
for (const { row, unit, ours, peers } of rows) {
  const beside = Object.entries(peers).map(
    ([name, value]) => `${name} ${value} (ours is ${(ours / Number(value)).toFixed(2)} of it)`,
  );
  process.stdout.write(`${row.padEnd(46)} ${String(ours).padStart(8)} ${unit.padEnd(11)} ${beside.join(', ')}\n`);
}
const machine = `${cpus()[0]?.model ?? 'unknown'} x${cpus().length}, node ${process.version}`;
process.stdout.write(`${JSON.stringify({ bench: 'ingest', machine, rows })}\n`);
