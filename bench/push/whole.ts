/** All of it: nats-server, PostgreSQL that syncs, the service behind its API, and a publisher with a steady pace. */

import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { sessionTokens } from '../../actors/auth/tokens/issue-tokens.ts';
import { notifyNumbers } from '../../actors/notify/deps.ts';
import { startNotify } from '../../actors/notify/service.ts';
import { NOTIFICATIONS_STREAM, notificationEvent } from '../../proto/notify/notification.ts';
import { DEFAULT_USER_LIMITS } from '../../proto/user-limits.ts';
import { tokenDirectory } from '../../storage/auth/token-directory.ts';
import { deadLetterSink } from '../../storage/bus/dead-letters.ts';
import { type Db, openDb } from '../../storage/db.ts';
import { startEmbedded } from '../../storage/embedded/server.ts';
import { migrate, migrationsDir } from '../../storage/migrate.ts';
import { start, stop, stopped } from '../../supervision/index.ts';
import { BUS_SECRET, startNats } from '../../test/support/bus/nats-server.ts';
import { silentLog } from '../../test/support/log.ts';
import { api } from '../../transports/api/api.ts';
import { authenticator } from '../../transports/api/authenticate.ts';
import { OpenStreams } from '../../transports/api/open-streams.ts';
import { natsBus } from '../../transports/bus/nats.ts';
import { listen } from '../../transports/http/index.ts';

/** What tokens of the benchmark are signed with. */
export const SECRET = 'a secret of the benchmark, 32 bytes or more';
const clock = { now: Date.now };
/** How often the publisher sends what is due, ms. */
const TICK_MS = 5;

/** The id of the user with that index. */
export const userIdOf = (index: number) => `u${String(index).padStart(11, '0')}`;

/** The time of day, ms, with fractions, the same in all processes. */
export const timeOfDay = () => performance.timeOrigin + performance.now();

/** Where the sockets of a user connect. */
export async function socketPath(index: number): Promise<string> {
  const id = userIdOf(index);
  const { token } = await sessionTokens(SECRET, 3600, clock)({ id, username: id, isAdmin: false });
  return `/ws/notifications?token=${token}`;
}

/** Serves until its standard input ends. Prints where. */
export async function serveWhole(users: number): Promise<void> {
  process.env.UWS_HTTP_MAX_HEADERS_SIZE ??= '16384';
  const ends: (() => unknown)[] = [];
  try {
    const folder = await mkdtemp(join(tmpdir(), 'troupe-bench-'));
    ends.unshift(() => rm(folder, { recursive: true, force: true }));
    const server = await startEmbedded({ dataDir: join(folder, 'data'), log: silentLog });
    ends.unshift(() => server.stop({ force: true }));
    const db = openDb(server.connection, { log: silentLog, name: 'bench', max: 8 });
    ends.unshift(() => db.close());
    await migrate(db, migrationsDir, silentLog);
    await addUsers(db, users);
    const nats = await startNats({ after: (end) => void ends.unshift(end) });
    const address = { servers: [nats.server] };
    const bus = natsBus({
      secret: BUS_SECRET,
      address,
      name: 'bench',
      deadLetters: deadLetterSink(db),
      log: silentLog,
    });
    ends.unshift(() => bus.close());
    const system = start({ log: silentLog });
    ends.unshift(async () => {
      stop(system);
      await stopped(system);
    });
    const directory = tokenDirectory(db);
    const { authenticate } = authenticator({ secret: SECRET, clock, directory });
    const streams = new OpenStreams(directory, silentLog);
    ends.unshift(() => streams.close());
    const service = await startNotify(system, {
      db,
      bus,
      log: silentLog,
      clock,
      numbers: notifyNumbers(),
      userLimits: DEFAULT_USER_LIMITS,
      deliveries: undefined,
    });
    const handlers = api({ service, authenticate, streams, pages: new Map(), domain: 'bench.test', log: silentLog });
    const listener = await listen({ host: '127.0.0.1', port: 0, ...handlers });
    ends.unshift(() => listener.close(0));
    process.stdout.write(`${JSON.stringify({ port: listener.port, nats: nats.server })}\n`);
    await once(createInterface({ input: process.stdin }), 'close');
  } finally {
    for (const end of ends) await end();
  }
  process.exit(0);
}

/** Adds so many users, who cannot log in by password. */
export async function addUsers(db: Db, users: number): Promise<void> {
  await db.run(
    `insert into users (id, username, display_name, password_hash) select id, id, id, 'none' from unnest($1::text[]) as new (id)`,
    [Array.from({ length: users }, (_, index) => userIdOf(index))],
  );
}

/** Publishes `perSecond` notifications a second, to one user after the other, for so long. The title says when. Returns how many. */
export async function publishAll(server: string, users: number, perSecond: number, seconds: number): Promise<number> {
  const deadLetters = { add: async () => {} };
  const bus = natsBus({
    secret: BUS_SECRET,
    address: { servers: [server] },
    name: 'publisher',
    deadLetters,
    log: silentLog,
  });
  try {
    await bus.ensureStream(NOTIFICATIONS_STREAM);
    const began = performance.now();
    const total = perSecond * seconds;
    const sending: Promise<unknown>[] = [];
    while (sending.length < total) {
      const due = Math.min(total, ((performance.now() - began) / 1000) * perSecond);
      while (sending.length < due) {
        const { subject, data, msgId } = notificationEvent('bench', Date.now(), {
          ...{ userId: userIdOf((sending.length * 7919) % users), title: `at ${timeOfDay().toFixed(2)}` },
          ...{ message: '"web" is running.', link: '/containers/abcdefghijk1', category: 'compute', scope: '' },
        });
        sending.push(bus.append(subject, data, { msgId }));
      }
      await sleep(TICK_MS);
    }
    await Promise.all(sending);
    return total;
  } finally {
    await bus.close();
  }
}
