/** The real notification service on a real database and the embedded bus, behind a real listener. */
import assert from 'node:assert/strict';
import { z } from 'zod';
import { type DeliveryDeps, notifyNumbers } from '../../../actors/notify/deps.ts';
import { type NotificationView, notificationSchema } from '../../../proto/notify/endpoints.ts';
import { NOTIFICATIONS_STREAM, type Notification, notificationEvent } from '../../../proto/notify/notification.ts';
import type { Bus } from '../../../proto/ports/bus.ts';
import { type TestSocket, type TestSocketOptions, websocket } from '../clients/websocket.ts';
import { request } from '../cluster/platform.ts';
import type { TestDatabase } from '../database/database.ts';
import type { Cleanup } from '../temp.ts';
import { until } from '../until.ts';
import { type ListenOptions, openService, serve } from './open-service.ts';
import { type Person, people } from './people.ts';

export type NotifyUnderTest = Awaited<ReturnType<typeof openNotify>>;

export interface NotifyOptions extends ListenOptions {
  readonly holdMs?: number;
  readonly slowMs?: number;
  /** How notifications leave the platform; they do not without it. */
  readonly deliveries?: DeliveryDeps;
  readonly database?: TestDatabase;
  /** Stands before the bus that the service gets. */
  readonly wrapBus?: (bus: Bus) => Bus;
}

/** Opens it without anybody. */
export async function openNotify(t: Cleanup, options: NotifyOptions = {}) {
  const { holdMs, slowMs, wrapBus, deliveries, database, ...listens } = options;
  const numbers = notifyNumbers();
  const opened = await openService(
    t,
    'notify',
    ({ bus }) => ({
      numbers,
      bus: wrapBus?.(bus) ?? bus,
      deliveries,
      ...(holdMs === undefined ? {} : { holdMs }),
      ...(slowMs === undefined ? {} : { slowMs }),
    }),
    { relays: true, ...(database === undefined ? {} : { database }) },
  );
  const { bus, store, clock } = opened;
  const url = `http://127.0.0.1:${(await serve(opened, listens)).port}`;
  const get = (person: Person, path: string) => request('GET', url + path, { token: person.token });
  /** Publishes to the person and returns the event's id. */
  const publish = async (to: Person, more: Partial<Notification> = {}) => {
    const { metadata: _, ...fields } = { ...sample(to.id), ...more };
    const { subject, data, msgId } = notificationEvent('test', clock.now(), fields);
    await bus.append(subject, data, { msgId });
    return msgId;
  };
  return Object.assign(opened, people(opened), {
    numbers,
    url,
    get,
    publish,
    /** Publishes one for each title, and waits until they are stored. */
    async stored(to: Person, titles: readonly string[], more: Partial<Notification> = {}) {
      const count = async () => Number((await get(to, '/api/notifications/unread-count')).json.count);
      const before = await count();
      for (const title of titles) await publish(to, { ...more, title });
      await until(async () => (await count()) === before + titles.length, { what: `${titles.length} are stored` });
    },
    request: (person: Person, method: string, path: string, body?: unknown) =>
      request(method, url + path, { token: person.token, ...(body === undefined ? {} : { body }) }),
    async list(person: Person, query = ''): Promise<NotificationView[]> {
      const reply = await get(person, `/api/notifications${query}`);
      assert.equal(reply.status, 200, JSON.stringify(reply.json));
      return z.array(notificationSchema.strict()).parse(reply.json.list);
    },
    /** Opens `/ws/notifications` with the token in the header. */
    socket: (u: Cleanup, person: Person, query = '', more: TestSocketOptions = {}) =>
      websocket(u, `${url.replace('http', 'ws')}/ws/notifications${query}`, {
        ...more,
        headers: { authorization: `Bearer ${person.token}`, ...more.headers },
      }),
    deadLetters: () => store.deadLetters(NOTIFICATIONS_STREAM.name, 1000),
  });
}

/** A notification to a user, without metadata. */
export function sample(userId: string): Omit<Notification, 'metadata'> {
  return { userId, title: 'Container started', message: '"web" is running.', link: '', category: 'compute', scope: '' };
}

/** The next notification of a socket, with exactly the fields of a notification. */
export async function nextOf(socket: TestSocket): Promise<NotificationView> {
  return notificationSchema.strict().parse(await socket.json());
}
