/** A database, a bus on NATS, people and a service's process: what trials of the notification service begin with. */

import { join } from 'node:path';
import { z } from 'zod';
import { sessionTokens } from '../../../actors/auth/tokens/issue-tokens.ts';
import { newId } from '../../../proto/ids.ts';
import { NOTIFICATIONS_STREAM, notificationEvent } from '../../../proto/notify/notification.ts';
import type { Bus } from '../../../proto/ports/bus.ts';
import { deadLetterSink } from '../../../storage/bus/dead-letters.ts';
import { type Db, type DbConnection, openDb } from '../../../storage/db.ts';
import { startEmbedded } from '../../../storage/embedded/server.ts';
import { migrate, migrationsDir } from '../../../storage/migrate.ts';
import { natsBus } from '../../../transports/bus/nats.ts';
import { BUS_SECRET, startNats, type TestNats } from '../bus/nats-server.ts';
import { silentLog } from '../log.ts';
import { type Cleanup, tempDir } from '../temp.ts';

const SECRET = 'a secret of the trials, 32 bytes or more';

/** Somebody, and what their clients show. */
export interface TrialPerson {
  readonly id: string;
  readonly token: string;
}

export interface Trial {
  readonly db: Db;
  readonly bus: Bus;
  readonly nats: TestNats;
  readonly people: readonly TrialPerson[];
  /** Path of PostgreSQL's socket. */
  readonly socket: string;
  /** The environment of a service that reaches PostgreSQL at `host` and `port`, or at its socket. */
  environment(host?: string, port?: number): Record<string, string>;
  /** Publishes one to each person, and returns once the bus has them. */
  publishToAll(title: string): Promise<void>;
  rows(): Promise<number>;
}

/** Starts it all with so many users, ended with `t`. PostgreSQL syncs. */
export async function startTrial(t: Cleanup, users: number): Promise<Trial> {
  const dataDir = join(await tempDir(t), 'data');
  const server = await startEmbedded({ dataDir, log: silentLog });
  t.after(async () => {
    await server.stop({ force: true });
  });
  const { socketDir, user, database, port: pgPort } = server.connection;
  const connection: DbConnection = server.connection;
  const db = openDb(connection, { log: silentLog, name: 'trial', max: 4 });
  t.after(() => db.close());
  await migrate(db, migrationsDir, silentLog);
  const nats = await startNats(t);
  const deadLetters = deadLetterSink(db);
  const bus = natsBus({
    secret: BUS_SECRET,
    address: { servers: [nats.server] },
    name: 'trial',
    deadLetters,
    log: silentLog,
  });
  t.after(() => bus.close());
  await bus.ensureStream(NOTIFICATIONS_STREAM);
  const issue = sessionTokens(SECRET, 86_400, { now: Date.now });
  const people = await Promise.all(
    Array.from({ length: users }, async () => {
      const id = newId();
      return { id, token: (await issue({ id, username: id, isAdmin: false })).token };
    }),
  );
  await db.run(
    `insert into users (id, username, display_name, password_hash) select id, id, id, 'none' from unnest($1::text[]) as new (id)`,
    [people.map(({ id }) => id)],
  );
  return {
    ...{ db, bus, nats, people, socket: join(socketDir, `.s.PGSQL.${pgPort}`) },
    environment: (host = socketDir, port = pgPort) => ({
      DATABASE_URL: `postgresql://${user}@/${database}?host=${encodeURIComponent(host)}&port=${port}`,
      ...{ JWT_SECRET: SECRET, NATS_URL: nats.url, LOG_LEVEL: 'error' },
    }),
    async publishToAll(title) {
      await Promise.all(
        people.map(({ id }) => {
          const fields = { userId: id, title, message: 'm', link: '', category: 'compute', scope: '' };
          const { subject, data, msgId } = notificationEvent('trial', Date.now(), fields);
          return bus.append(subject, data, { msgId });
        }),
      );
    },
    async rows() {
      const row = await db.one(z.object({ count: z.number() }), 'select count(*) as count from notifications');
      return row?.count ?? 0;
    },
  };
}
