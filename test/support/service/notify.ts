/** The real notification service on a real database and the embedded bus, behind a real listener. */
import assert from 'node:assert/strict';
import { z } from 'zod';
import { sessionTokens } from '../../../actors/auth/tokens/issue-tokens.ts';
import { type NotifyNumbers, notifyNumbers } from '../../../actors/notify/deps.ts';
import { startNotify } from '../../../actors/notify/service.ts';
import { newId } from '../../../proto/ids.ts';
import { type NotificationView, notificationSchema } from '../../../proto/notify/endpoints.ts';
import { NOTIFICATIONS_STREAM, type Notification, notificationEvent } from '../../../proto/notify/notification.ts';
import type { Bus } from '../../../proto/ports/bus.ts';
import type { StoredDeadLetter, StreamStore } from '../../../proto/ports/bus-store.ts';
import type { Service } from '../../../proto/service.ts';
import { tokenDirectory } from '../../../storage/auth/token-directory.ts';
import { insertUser } from '../../../storage/auth/users.ts';
import { streamStore } from '../../../storage/bus/store.ts';
import { type Db, openDb } from '../../../storage/db.ts';
import { outboxStore } from '../../../storage/outbox.ts';
import { type SystemRef, start, stop, stopped } from '../../../supervision/index.ts';
import { api } from '../../../transports/api/api.ts';
import { authenticator } from '../../../transports/api/authenticate.ts';
import { OpenStreams } from '../../../transports/api/open-streams.ts';
import { embeddedBus } from '../../../transports/bus/embedded.ts';
import { relayOutbox } from '../../../transports/bus/relay.ts';
import { listen } from '../../../transports/http/index.ts';
import { type TestSocket, type TestSocketOptions, websocket } from '../clients/websocket.ts';
import { type Reply, request } from '../cluster/platform.ts';
import { silentLog, testDatabase } from '../database/database.ts';
import type { Cleanup } from '../temp.ts';
import { until } from '../until.ts';
import { type FailingDb, failingDb, type KeptLog, keptLog, type MovableClock, movableClock } from './compute.ts';

export const SECRET = 'a secret of the tests, 32 bytes or more';
export const DOMAIN = 'cloud.test';

/** Somebody who is logged in. */
export interface Person {
  readonly id: string;
  readonly token: string;
}

export interface House {
  /** The service's own; the test can make it fail. */
  readonly db: FailingDb;
  /** The database as another process has it. */
  readonly outside: Db;
  readonly bus: Bus;
  readonly store: StreamStore;
  readonly system: SystemRef;
  readonly service: Service;
  readonly clock: MovableClock;
  readonly log: KeptLog;
  readonly numbers: NotifyNumbers;
  /** `http://127.0.0.1:<port>` */
  readonly url: string;
  person(username: string, ttlSeconds?: number): Promise<Person>;
  /** Publishes to the person and returns the event's id. */
  publish(to: Person, more?: Partial<Notification>): Promise<string>;
  /** Publishes n, titled `1` to `n`, and waits until they are stored. */
  stored(to: Person, titles: readonly string[], more?: Partial<Notification>): Promise<void>;
  get(person: Person, path: string): Promise<Reply>;
  call(person: Person, method: string, path: string, body?: unknown): Promise<Reply>;
  list(person: Person, query?: string): Promise<NotificationView[]>;
  /** Opens `/ws/notifications` with the token in the header. */
  socket(t: Cleanup, person: Person, query?: string, options?: TestSocketOptions): Promise<TestSocket>;
  deadLetters(): Promise<StoredDeadLetter[]>;
  /** The user is gone. */
  forgetUser(person: Person): Promise<void>;
}

export interface HouseOptions {
  readonly holdMs?: number;
  readonly slowMs?: number;
  readonly adapter?: 'own' | 'uws' | 'node';
  readonly maxBufferedBytes?: number;
  readonly pingMs?: number;
  /** Stands before the bus that the service gets. */
  readonly wrapBus?: (bus: Bus) => Bus;
}

/** What follows this many of a user's rows has been taken care of. */
export async function openHouse(t: Cleanup, options: HouseOptions = {}): Promise<House> {
  const database = await testDatabase();
  const outside = openDb(database.connection, { log: silentLog, name: 'outside', max: 4 });
  const db = failingDb(database.db);
  const [clock, log, numbers, relaying] = [movableClock(), keptLog(), notifyNumbers(), new AbortController()];
  const store = streamStore(database.db);
  const bus = embeddedBus({ store, log: silentLog, lookMs: 200 });
  await bus.ensureStream(NOTIFICATIONS_STREAM);
  const relayed = relayOutbox({ store: outboxStore(database.db), bus, log: silentLog, signal: relaying.signal });
  const system = start({ log });
  const directory = tokenDirectory(database.db);
  const { authenticate, forget } = authenticator({ secret: SECRET, clock, directory });
  const streams = new OpenStreams(directory, silentLog);
  const news = directory.onNews((change) => {
    forget(change);
    streams.look(change);
  });
  const { holdMs, slowMs } = options;
  const service = await startNotify(system, {
    ...{ db, bus: options.wrapBus?.(bus) ?? bus, log, clock, numbers },
    ...(holdMs === undefined ? {} : { holdMs }),
    ...(slowMs === undefined ? {} : { slowMs }),
  });
  const server = await listen(
    {
      ...{ host: '127.0.0.1', port: 0 },
      ...(options.maxBufferedBytes === undefined ? {} : { maxBufferedBytes: options.maxBufferedBytes }),
      ...(options.pingMs === undefined ? {} : { pingMs: options.pingMs }),
      ...api({ service, authenticate, streams, pages: new Map(), domain: DOMAIN, log }),
    },
    options.adapter ?? 'auto',
  );
  t.after(async () => {
    db.failure = undefined;
    await server.close(1000);
    stop(system);
    await stopped(system);
    relaying.abort();
    await relayed;
    await news.close();
    streams.close();
    await bus.close();
    await outside.close();
    await database.close();
  });
  const url = `http://127.0.0.1:${server.port}`;

  const house: House = {
    ...{ db, outside, bus, store, system, service, clock, log, numbers, url },
    async person(username, ttlSeconds = 3600) {
      const id = newId();
      assert.ok(await insertUser(outside, { id, username, passwordHash: 'none' }));
      const { token } = await sessionTokens(SECRET, ttlSeconds, clock)({ id, username, isAdmin: false });
      return { id, token };
    },
    async publish(to, more = {}) {
      const { metadata: _, ...fields } = { ...sample(to.id), ...more };
      const { subject, data, msgId } = notificationEvent('test', clock.now(), fields);
      await bus.append(subject, data, { msgId });
      return msgId;
    },
    async stored(to, titles, more = {}) {
      const count = async () => Number((await house.get(to, '/api/notifications/unread-count')).json.count);
      const before = await count();
      for (const title of titles) await house.publish(to, { ...more, title });
      await until(async () => (await count()) === before + titles.length, { what: `${titles.length} are stored` });
    },
    get: (person, path) => request('GET', url + path, { token: person.token }),
    call: (person, method, path, body) =>
      request(method, url + path, { token: person.token, ...(body === undefined ? {} : { body }) }),
    async list(person, query = '') {
      const reply = await house.get(person, `/api/notifications${query}`);
      assert.equal(reply.status, 200, JSON.stringify(reply.json));
      return z.array(notificationSchema.strict()).parse(reply.json.list);
    },
    socket: (u, person, query = '', more = {}) =>
      websocket(u, `${url.replace('http', 'ws')}/ws/notifications${query}`, {
        ...more,
        headers: { authorization: `Bearer ${person.token}`, ...more.headers },
      }),
    deadLetters: () => store.deadLetters(NOTIFICATIONS_STREAM.name, 1000),
    async forgetUser(person) {
      await outside.run('delete from users where id = $1', [person.id]);
      await outside.notify('tokens', JSON.stringify({ kind: 'user', id: person.id }));
    },
  };
  return house;
}

/** A notification to a user, without metadata. */
export function sample(userId: string): Omit<Notification, 'metadata'> {
  return { userId, title: 'Container started', message: '"web" is running.', link: '', category: 'compute', scope: '' };
}

/** The next notification of a socket, with exactly the fields of interface section 2.15. */
export async function nextOf(socket: TestSocket): Promise<NotificationView> {
  return notificationSchema.strict().parse(await socket.json());
}
