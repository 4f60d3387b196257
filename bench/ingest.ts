/**
 * How many notifications a second come from the stream into rows, beside bare inserts?
 *
 * `npm run bench -- ingest [ROUNDS]`. 20,000 notifications to 1,000 users, on a PostgreSQL that syncs: through JetStream of a nats-server, through the
 * embedded bus, which keeps its stream in the same database, and from a bus that costs nothing, which is what the service itself can do. Beside
 * them bare inserts of the same columns by batches of 500 on one connection, into the same table and into a plain one. Rates are from the first
 * fetch to the last acknowledgement.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { cpus, tmpdir } from 'node:os';
import { join } from 'node:path';
import { z } from 'zod';
import { type NotifyNumbers, notifyNumbers } from '../actors/notify/deps.ts';
import { startNotify } from '../actors/notify/service.ts';
import { newId } from '../proto/ids.ts';
import { NOTIFICATIONS_STREAM, notificationEvent } from '../proto/notification.ts';
import type { Bus, StreamMessage } from '../proto/ports.ts';
import { deadLetterSink } from '../storage/bus/dead-letters.ts';
import { streamStore } from '../storage/bus/store.ts';
import { type Db, openDb } from '../storage/db.ts';
import { startEmbedded } from '../storage/embedded/server.ts';
import { migrate, migrationsDir } from '../storage/migrate.ts';
import { start, stop, stopped } from '../supervision/index.ts';
import { silentLog } from '../test/kit/database.ts';
import { startNats, type TestNats } from '../test/kit/nats.ts';
import { findProgram } from '../test/kit/require.ts';
import { until } from '../test/kit/until.ts';
import { embeddedBus } from '../transports/bus/embedded.ts';
import { natsBus } from '../transports/bus/nats.ts';

const MESSAGES = 20_000;
const USERS = 1000;
const BATCH = 500;

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
    const rates: Record<string, number[]> = {
      publish: [],
      embedded: [],
      appends: [],
      nats: [],
      service: [],
      same: [],
      plain: [],
    };
    for (let round = 0; round <= rounds; round++) {
      const measured: Record<string, number> = {
        ...(await throughEmbedded(db, events(userIds))),
        ...(nats === undefined ? {} : await throughNats(db, nats, events(userIds))),
        service: await service(db, events(userIds)),
        same: await bare(db, 'notifications', userIds),
        plain: await bare(db, 'plain', userIds),
      };
      // The first round lets the compiler settle.
      if (round > 0) for (const [name, rate] of Object.entries(measured)) rates[name]?.push(rate);
      await db.script('truncate notifications, plain, bus_messages, bus_message_ids');
      await db.run('vacuum analyze');
    }
    const of = (name: string) => Math.round(rates[name]?.toSorted((a, b) => a - b)[Math.floor(rounds / 2)] ?? 0);
    const peers = { 'bare inserts, same table': of('same'), 'bare inserts, plain table': of('plain') };
    return [
      { row: 'service alone', unit: 'rows/s', ours: of('service'), peers },
      { row: 'embedded bus, all of it', unit: 'rows/s', ours: of('embedded'), peers },
      ...(nats === undefined
        ? []
        : [
            { row: 'JetStream, all of it', unit: 'rows/s', ours: of('nats'), peers },
            { row: 'publish, JetStream', unit: 'messages/s', ours: of('appends'), peers: {} },
          ]),
      { row: 'publish, embedded bus', unit: 'messages/s', ours: of('publish'), peers: {} },
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

const perSecond = (began: number) => MESSAGES / ((performance.now() - began) / 1000);
const pending = z.object({ count: z.number() });

/** Publishes all, then consumes all: publish, and from the first fetch to the last acknowledgement. */
async function throughEmbedded(db: Db, all: readonly Event[]): Promise<{ publish: number; embedded: number }> {
  const bus = embeddedBus({ store: streamStore(db), log: silentLog });
  try {
    await bus.ensureStream(NOTIFICATIONS_STREAM);
    const published = performance.now();
    for (let at = 0; at < all.length; at += 5000)
      await Promise.all(
        all.slice(at, at + 5000).map(({ subject, data, msgId }) => bus.append(subject, data, { msgId })),
      );
    const publish = perSecond(published);
    const began = performance.now();
    await whileServing(db, bus, async (numbers) => {
      await until(() => numbers.stored >= MESSAGES, { timeoutMs: 120_000, everyMs: 2 });
      const acked = async () => (await db.one(pending, 'select count(*) as count from bus_deliveries'))?.count === 0;
      await until(acked, { timeoutMs: 10_000, everyMs: 2 });
    });
    return { publish, embedded: perSecond(began) };
  } finally {
    await bus.close();
  }
}

async function throughNats(db: Db, nats: TestNats, all: readonly Event[]): Promise<{ appends: number; nats: number }> {
  const deadLetters = deadLetterSink(db);
  const bus = natsBus({ address: { servers: [nats.server] }, name: 'bench', deadLetters, log: silentLog });
  try {
    await bus.ensureStream(NOTIFICATIONS_STREAM);
    const published = performance.now();
    for (let at = 0; at < all.length; at += 5000)
      await Promise.all(
        all.slice(at, at + 5000).map(({ subject, data, msgId }) => bus.append(subject, data, { msgId })),
      );
    const appends = perSecond(published);
    const began = performance.now();
    await whileServing(db, bus, async (numbers) => {
      await until(() => numbers.stored >= MESSAGES, { timeoutMs: 120_000, everyMs: 2 });
    });
    // The service ends after its last acknowledgement.
    return { appends, nats: perSecond(began) };
  } finally {
    await bus.close();
  }
}

/** The same from a bus that has everything at hand and takes answers at once. */
async function service(db: Db, all: readonly Event[]): Promise<number> {
  let acked = 0;
  let began = 0;
  const never = () => Promise.reject(new Error('The benchmark does not ask for this.'));
  const bus: Bus = {
    publish: () => {},
    subscribe: () => ({ close: async () => {} }),
    request: never,
    ensureStream: async () => {},
    append: never,
    kv: never,
    close: async () => {},
    consume: async (_stream, { maxAckPending }, handler) => {
      const feeding = (async () => {
        began = performance.now();
        for (let at = 0; at < all.length; at += maxAckPending) {
          const ack = async () => void acked++;
          const batch = all.slice(at, at + maxAckPending);
          await handler(
            batch.map(
              ({ subject, data }, index): StreamMessage => ({
                ...{ subject, data, seq: at + index, deliveryCount: 1 },
                ...{ ack, nak: never, term: never },
              }),
            ),
          );
        }
      })();
      return { close: () => feeding };
    },
  };
  let rate = 0;
  await whileServing(db, bus, async () => {
    await until(() => acked >= MESSAGES, { timeoutMs: 120_000, everyMs: 2 });
    rate = perSecond(began);
  });
  return rate;
}

async function whileServing(db: Db, bus: Bus, work: (numbers: NotifyNumbers) => Promise<void>): Promise<void> {
  const system = start({ log: silentLog });
  const numbers = notifyNumbers();
  try {
    await startNotify(system, { db, bus, log: silentLog, clock: { now: Date.now }, numbers });
    await work(numbers);
  } finally {
    stop(system);
    await stopped(system);
  }
}

/** Inserts the same columns by batches on one connection, and nothing else. */
async function bare(db: Db, table: 'notifications' | 'plain', userIds: readonly string[]): Promise<number> {
  const all = Array.from({ length: MESSAGES }, (_, index) => ({
    userId: userIds[(index * 7919) % USERS] ?? '',
    eventId: newId() + newId() + newId(),
  }));
  const began = performance.now();
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
  return perSecond(began);
}

const rows = await pipeline(Number(process.argv[2]) || 5);
for (const { row, unit, ours, peers } of rows) {
  const beside = Object.entries(peers).map(
    ([name, rate]) => `${name} ${rate} (ours is ${(ours / rate).toFixed(2)} of it)`,
  );
  process.stdout.write(`${row.padEnd(26)} ${String(ours).padStart(8)} ${unit.padEnd(11)} ${beside.join(', ')}\n`);
}
const machine = `${cpus()[0]?.model ?? 'unknown'} x${cpus().length}, node ${process.version}`;
process.stdout.write(`${JSON.stringify({ bench: 'ingest', machine, rows })}\n`);
