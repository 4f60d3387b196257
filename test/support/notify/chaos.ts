/**
 * Chaos against the notification service: publishers publish and clients follow while the service's process, PostgreSQL and, when it
 * carries the bus, NATS get SIGKILL at random. In the end every published notification is one row, and every client has seen each id once and in order. The same seed makes the
 * same choices; what meets what in time differs.
 */

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { sessionTokens } from '../../../actors/auth/tokens/issue-tokens.ts';
import { newId } from '../../../proto/ids.ts';
import { encodeNotification, NOTIFICATIONS_STREAM } from '../../../proto/notify/notification.ts';
import type { Bus } from '../../../proto/ports/bus.ts';
import { deadLetterSink } from '../../../storage/bus/dead-letters.ts';
import { streamStore } from '../../../storage/bus/store.ts';
import { type Db, openDb } from '../../../storage/db.ts';
import { startEmbedded } from '../../../storage/embedded/server.ts';
import { migrate, migrationsDir } from '../../../storage/migrate.ts';
import { append } from '../../../storage/outbox.ts';
import { embeddedBus } from '../../../transports/bus/embedded.ts';
import { natsBus } from '../../../transports/bus/nats.ts';
import { BUS_SECRET, startNats, type TestNats } from '../bus/nats-server.ts';
import { seeded } from '../chaos/chaos.ts';
import { silentLog } from '../log.ts';
import { pause } from '../pause.ts';
import { type Cleanup, freePort, tempDir } from '../temp.ts';
import { until } from '../until.ts';
import { FollowingClient } from './following-client.ts';
import { ServiceProcess } from './process.ts';

/** How much of it. */
export interface NotifyChaosOptions {
  readonly seed: number;
  readonly messages: number;
  readonly users: number;
  /** SIGKILLs in all: each victim once in an order by chance, and again. */
  readonly kills: number;
  /** Whether the bus is NATS, a victim too, or the embedded one. */
  readonly nats: boolean;
  /** How long all may take to arrive after the last was published, ms. */
  readonly settleMs: number;
}

/** What is killed. */
export type Victim = 'service' | 'postgres' | 'nats';

/** What happened. */
export interface NotifyChaosReport {
  readonly published: number;
  readonly rows: number;
  /** Frames that clients got. */
  readonly seen: number;
  readonly connections: number;
  readonly kills: Readonly<Record<Victim, number>>;
  /** Publishes that had to be tried again. */
  readonly retries: number;
  readonly tookMs: number;
  readonly settledMs: number;
}

const SECRET = 'a secret of the chaos trial, 32 bytes or more';
const PUBLISHERS = 8;

/** Runs it. Rejects with what is not as promised. Leaves nothing behind. */
export async function runNotifyChaos(options: NotifyChaosOptions): Promise<NotifyChaosReport> {
  const ends: (() => Promise<void> | void)[] = [];
  try {
    return await chaos({ after: (end) => void ends.unshift(end) }, options);
  } finally {
    // What cannot be tidied must not hide what was found.
    for (const end of ends)
      await Promise.resolve(end()).catch((error: unknown) => process.stderr.write(`not tidied: ${error}\n`));
  }
}

async function chaos(t: Cleanup, options: NotifyChaosOptions): Promise<NotifyChaosReport> {
  const random = seeded(options.seed);
  const dataDir = join(await tempDir(t), 'data');
  const server = await startEmbedded({ dataDir, log: silentLog });
  t.after(async () => {
    await server.stop({ force: true });
  });
  const { socketDir, user, database, port: pgPort } = server.connection;
  const db = openDb(server.connection, { log: silentLog, name: 'trial', max: 12 });
  t.after(() => db.close());
  await migrate(db, migrationsDir, silentLog);
  const nats = options.nats ? await startNats(t) : undefined;
  const bus = busOn(db, nats);
  t.after(() => bus.close());
  await bus.ensureStream(NOTIFICATIONS_STREAM);

  const issue = sessionTokens(SECRET, 86_400, { now: Date.now });
  const people = await Promise.all(
    Array.from({ length: options.users }, async (_, index) => {
      const person = { id: newId(), username: `user${index}`, isAdmin: false };
      return { ...person, token: (await issue(person)).token };
    }),
  );
  await db.run(
    `insert into users (id, username, display_name, password_hash)
     select id, name, name, 'none' from unnest($1::text[], $2::text[]) as new (id, name)`,
    [people.map(({ id }) => id), people.map(({ username }) => username)],
  );

  const port = await freePort();
  const service = new ServiceProcess(port, {
    DATABASE_URL: `postgresql://${user}@/${database}?host=${encodeURIComponent(socketDir)}&port=${pgPort}`,
    JWT_SECRET: SECRET,
    NATS_URL: nats?.url ?? '',
    LOG_LEVEL: 'error',
  });
  t.after(() => service.end());
  await service.start();

  const clients = people.map(
    ({ token }) => new FollowingClient(`ws://127.0.0.1:${port}/ws/notifications?token=${token}`, random),
  );
  t.after(() => {
    for (const client of clients) client.end();
  });
  for (const client of clients) client.begin();
  const allConnected = () => clients.every(({ isConnected }) => isConnected);
  await until(allConnected, { timeoutMs: 60_000, what: 'all clients are connected' });

  const publisher = new Publisher(
    db,
    bus,
    people.map(({ id }) => id),
    options.messages,
  );
  const began = performance.now();
  const kills = { service: 0, postgres: 0, nats: 0 };
  const draw = victims(options.nats, random);
  const publishing = Promise.all(Array.from({ length: PUBLISHERS }, (_, n) => publisher.run(n % 2 === 0)));
  for (let kill = 1; kill <= options.kills; kill++) {
    // Spread over the publishing, and the last of them after it.
    const share = options.messages * ((kill - 0.5) / options.kills);
    await until(() => publisher.done >= Math.min(options.messages, share), { timeoutMs: 600_000, everyMs: 20 });
    await pause(random() * 300, 'fault');
    const victim = draw();
    kills[victim] += 1;
    if (victim === 'postgres') await killPostmaster(join(dataDir, 'postgres', 'postmaster.pid'));
    if (victim === 'service') await service.kill();
    if (victim === 'nats') {
      await nats?.kill();
      await pause(random() * 1000, 'fault');
      await nats?.start();
    }
    await service.start();
  }
  await publishing;
  const tookMs = performance.now() - began;

  const wanted = () => options.messages;
  const rowCount = async () =>
    (
      await db
        .one(z.object({ count: z.number() }), 'select count(*) as count from notifications')
        .catch(() => undefined)
    )?.count ?? -1;
  const settled = async () =>
    clients.every(({ problem }) => problem !== undefined) ||
    (allConnected() &&
      (await rowCount()) >= wanted() &&
      clients.reduce((sum, { seen }) => sum + seen.length, 0) >= wanted());
  await until(settled, { timeoutMs: options.settleMs, everyMs: 200 }).catch(() => undefined);
  const settledMs = performance.now() - began - tookMs;
  // What is doubled may come late.
  await pause(1000, 'watch');
  const rows = await check(db, publisher, people, clients);
  return {
    ...{ published: publisher.done, rows, kills, retries: publisher.retries, tookMs, settledMs },
    seen: clients.reduce((sum, { seen }) => sum + seen.length, 0),
    connections: clients.reduce((sum, { connections }) => sum + connections, 0),
  };
}

/** The trial's own end of the bus. */
function busOn(db: Db, nats: TestNats | undefined): Bus {
  if (nats === undefined) return embeddedBus({ store: streamStore(db), log: silentLog });
  const deadLetters = deadLetterSink(db);
  return natsBus({
    secret: BUS_SECRET,
    address: { servers: [nats.server] },
    name: 'trial',
    deadLetters,
    log: silentLog,
  });
}

/** Draws who is killed next: everybody once before anybody again. */
function victims(isNats: boolean, random: () => number): () => Victim {
  const all: readonly Victim[] = isNats ? ['service', 'postgres', 'nats'] : ['service', 'postgres'];
  let left: Victim[] = [];
  return () => {
    if (left.length === 0) left = [...all];
    const [drawn] = left.splice(Math.floor(random() * left.length), 1);
    return drawn ?? 'service';
  };
}

/** The one that runs; if none does, the one before was killed a moment ago. */
async function killPostmaster(pidFile: string): Promise<void> {
  const isKilled = async () => {
    const pid = Number((await readFile(pidFile, 'utf8').catch(() => '')).split('\n')[0]);
    try {
      return pid > 1 && process.kill(pid, 'SIGKILL');
    } catch {
      // Its file is there, it is not: the next one comes.
      return false;
    }
  };
  await until(isKilled, { what: 'a postmaster runs', everyMs: 50, timeoutMs: 120_000 });
}

const stored = z.object({ id: z.number(), user_id: z.string(), event_id: z.string() });

/** Compares what was published with the rows, and the rows with what each client saw. Returns the number of rows. */
async function check(
  db: Db,
  publisher: Publisher,
  people: readonly { id: string }[],
  clients: readonly FollowingClient[],
) {
  const rows = await db.many(stored, 'select id, user_id, event_id from notifications order by id');
  const count = new Map<string, number>();
  const ofUser = new Map<string, number[]>();
  for (const { id, user_id, event_id } of rows) {
    count.set(event_id, (count.get(event_id) ?? 0) + 1);
    ofUser.set(user_id, [...(ofUser.get(user_id) ?? []), id]);
  }
  const missing = [...publisher.events].filter((id) => !count.has(id));
  const doubled = [...count].filter(([, times]) => times > 1);
  assert.deepEqual(
    { missing: missing.length, doubled: doubled.length, rows: rows.length },
    {
      ...{ missing: 0, doubled: 0, rows: publisher.events.size },
    },
  );
  for (const [index, { id }] of people.entries()) {
    const client = clients[index];
    assert.equal(client?.problem, undefined);
    assert.deepEqual(client?.seen, ofUser.get(id) ?? [], `what user ${index} saw`);
  }
  return rows.length;
}

/** Publishes until all are, each under one id however often it takes. */
class Publisher {
  readonly events = new Set<string>();
  done = 0;
  retries = 0;
  #next = 0;
  readonly #db: Db;
  readonly #bus: Bus;
  readonly #userIds: readonly string[];
  readonly #messages: number;

  constructor(db: Db, bus: Bus, userIds: readonly string[], messages: number) {
    this.#db = db;
    this.#bus = bus;
    this.#userIds = userIds;
    this.#messages = messages;
  }

  /** Every other publisher goes through the outbox, as the platform's services do. */
  async run(throughOutbox: boolean): Promise<void> {
    while (this.#next < this.#messages) {
      const batch: Promise<void>[] = [];
      for (let n = 0; n < 20 && this.#next < this.#messages; n++)
        batch.push(this.#publish(this.#next++, throughOutbox));
      await Promise.all(batch);
    }
  }

  async #publish(number: number, throughOutbox: boolean): Promise<void> {
    const userId = this.#userIds[number % this.#userIds.length] ?? '';
    const eventId = randomUUID();
    this.events.add(eventId);
    const notification = { userId, title: `n${number}`, message: 'm', link: '', category: 'compute', scope: '' };
    const metadata = { eventId, source: 'trial', createdAt: Date.now() };
    const event = {
      msgId: eventId,
      subject: `notify.${userId}`,
      data: encodeNotification({ ...notification, metadata }),
    };
    for (;;) {
      try {
        if (throughOutbox) await append(this.#db, event);
        else await this.#bus.append(event.subject, event.data, { msgId: eventId });
        break;
      } catch {
        this.retries += 1;
        await pause(100, 'retry');
      }
    }
    this.done += 1;
  }
}
