/** The real notification service on a real database and the embedded bus, behind a real listener. */
import assert from 'node:assert/strict';
import { z } from 'zod';
import { type NotifyNumbers, notifyNumbers } from '../../../actors/notify/deps.ts';
import { type NotificationView, notificationSchema } from '../../../proto/notify/endpoints.ts';
import { NOTIFICATIONS_STREAM, type Notification, notificationEvent } from '../../../proto/notify/notification.ts';
import type { Bus } from '../../../proto/ports/bus.ts';
import type { StoredDeadLetter } from '../../../proto/ports/bus-store.ts';
import { type TestSocket, type TestSocketOptions, websocket } from '../clients/websocket.ts';
import { type Reply, request } from '../cluster/platform.ts';
import type { Cleanup } from '../temp.ts';
import { until } from '../until.ts';
import { type ListenOptions, type OpenService, openService, serve } from './open-service.ts';
import { addPerson, type Person } from './people.ts';

export interface NotifyUnderTest extends OpenService {
  readonly numbers: NotifyNumbers;
  /** `http://127.0.0.1:<port>` */
  readonly url: string;
  person(username: string, ttlSeconds?: number): Promise<Person>;
  /** Publishes to the person and returns the event's id. */
  publish(to: Person, more?: Partial<Notification>): Promise<string>;
  /** Publishes n, titled `1` to `n`, and waits until they are stored. */
  stored(to: Person, titles: readonly string[], more?: Partial<Notification>): Promise<void>;
  get(person: Person, path: string): Promise<Reply>;
  request(person: Person, method: string, path: string, body?: unknown): Promise<Reply>;
  list(person: Person, query?: string): Promise<NotificationView[]>;
  /** Opens `/ws/notifications` with the token in the header. */
  socket(t: Cleanup, person: Person, query?: string, options?: TestSocketOptions): Promise<TestSocket>;
  deadLetters(): Promise<StoredDeadLetter[]>;
  /** The user is gone. */
  forgetUser(person: Person): Promise<void>;
}

export interface NotifyOptions extends ListenOptions {
  readonly holdMs?: number;
  readonly slowMs?: number;
  /** Stands before the bus that the service gets. */
  readonly wrapBus?: (bus: Bus) => Bus;
}

/** Opens it without anybody. */
export async function openNotify(t: Cleanup, options: NotifyOptions = {}): Promise<NotifyUnderTest> {
  const { holdMs, slowMs, wrapBus, ...listens } = options;
  const numbers = notifyNumbers();
  const opened = await openService(
    t,
    'notify',
    ({ bus }) => ({
      numbers,
      bus: wrapBus?.(bus) ?? bus,
      ...(holdMs === undefined ? {} : { holdMs }),
      ...(slowMs === undefined ? {} : { slowMs }),
    }),
    { relays: true },
  );
  const { outside, bus, store, clock } = opened;
  const url = `http://127.0.0.1:${(await serve(opened, listens)).port}`;
  const notify: NotifyUnderTest = Object.assign(opened, {
    numbers,
    url,
    person: (username: string, ttlSeconds?: number) => addPerson(opened, username, ttlSeconds),
    async publish(to: Person, more: Partial<Notification> = {}) {
      const { metadata: _, ...fields } = { ...sample(to.id), ...more };
      const { subject, data, msgId } = notificationEvent('test', clock.now(), fields);
      await bus.append(subject, data, { msgId });
      return msgId;
    },
    async stored(to: Person, titles: readonly string[], more: Partial<Notification> = {}) {
      const count = async () => Number((await notify.get(to, '/api/notifications/unread-count')).json.count);
      const before = await count();
      for (const title of titles) await notify.publish(to, { ...more, title });
      await until(async () => (await count()) === before + titles.length, { what: `${titles.length} are stored` });
    },
    get: (person: Person, path: string) => request('GET', url + path, { token: person.token }),
    request: (person: Person, method: string, path: string, body?: unknown) =>
      request(method, url + path, { token: person.token, ...(body === undefined ? {} : { body }) }),
    async list(person: Person, query = '') {
      const reply = await notify.get(person, `/api/notifications${query}`);
      assert.equal(reply.status, 200, JSON.stringify(reply.json));
      return z.array(notificationSchema.strict()).parse(reply.json.list);
    },
    socket: (u: Cleanup, person: Person, query = '', more: TestSocketOptions = {}) =>
      websocket(u, `${url.replace('http', 'ws')}/ws/notifications${query}`, {
        ...more,
        headers: { authorization: `Bearer ${person.token}`, ...more.headers },
      }),
    deadLetters: () => store.deadLetters(NOTIFICATIONS_STREAM.name, 1000),
    async forgetUser(person: Person) {
      await outside.run('delete from users where id = $1', [person.id]);
      await outside.notify('tokens', JSON.stringify({ kind: 'user', id: person.id }));
    },
  });
  return notify;
}

/** A notification to a user, without metadata. */
export function sample(userId: string): Omit<Notification, 'metadata'> {
  return { userId, title: 'Container started', message: '"web" is running.', link: '', category: 'compute', scope: '' };
}

/** The next notification of a socket, with exactly the fields of a notification. */
export async function nextOf(socket: TestSocket): Promise<NotificationView> {
  return notificationSchema.strict().parse(await socket.json());
}
