/** Several processes of the notification service on one database and one bus: five sockets of a user in all of them together. */

import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { changeLimits } from '../../actors/auth/users/limits.ts';
import { CONNECTION_QUOTA, oldest } from '../../actors/notify/connection-quota.ts';
import type { Caller } from '../../proto/endpoint.ts';
import { listNotifications, notificationSocket, unreadCount } from '../../proto/notify/endpoints.ts';
import { notificationEvent } from '../../proto/notify/notification.ts';
import { insertUser } from '../../storage/auth/users.ts';
import { streamStore } from '../../storage/bus/store.ts';
import { type SystemRef, stats } from '../../supervision/index.ts';
import type { Cluster } from '../../supervision/placement/index.ts';
import { embeddedBus } from '../../transports/bus/embedded.ts';
import { testDatabase } from '../support/database/database.ts';
import { silentLog } from '../support/log.ts';
import { someone } from '../support/service/calls.ts';
import type { FakeSocket } from '../support/service/fake-socket.ts';
import { SHORT_LEASES, settled } from '../support/service/node.ts';
import { openService } from '../support/service/open-service.ts';
import { until } from '../support/until.ts';

const FULL_REASON = 'connection limit reached: close one, or the operator raises it by troupe users limits NAME';
const FULL = { code: 1008, reason: FULL_REASON };

/** A process. */
interface Node {
  readonly placement: Cluster;
  /** Opens a socket; resolves once its user's actor there knows it. */
  connect(user: Caller): Promise<FakeSocket>;
  unread(user: Caller): Promise<number>;
  titles(user: Caller): Promise<string[]>;
  /** Leaves: hands over what it holds. */
  end(): Promise<void>;
  /** As if the process had died: nobody is told. */
  kill(): Promise<void>;
}

async function setting(t: TestContext) {
  const database = await testDatabase();
  const { db } = database;
  const bus = embeddedBus({ store: streamStore(db), log: silentLog, lookMs: 200 });
  const nodes: Node[] = [];
  t.after(async () => {
    await Promise.all(nodes.map((node) => node.end()));
    await bus.close();
    await database.close();
  });
  // No two sockets have one age.
  let time = Date.now();
  const advance = (ms: number) => {
    time += ms;
  };
  const clock = { now: () => time++, advance };

  const add = async (): Promise<Node> => {
    const opened = await openService(t, 'notify', () => ({}), {
      database,
      bus,
      clock,
      roles: ['notify'],
      timings: SHORT_LEASES,
    });
    const { placement, system } = opened;
    const node: Node = {
      placement,
      connect: async (user) => {
        const before = handled(system);
        const socket = await opened.connect(notificationSocket, user, { query: { since: '0' } });
        await until(() => handled(system) > before, { what: 'the actor of the user knows the socket' });
        return socket;
      },
      unread: async (user) => (await opened.call(unreadCount, user)).count,
      titles: async (user) => (await opened.call(listNotifications, user)).map(({ title }) => title),
      end: () => opened.leave(),
      kill: () => opened.kill(),
    };
    nodes.push(node);
    return node;
  };
  const person = async (where: (userId: string) => boolean): Promise<Caller> => {
    let user = someone();
    while (!where(user.userId)) user = someone();
    assert.ok(await insertUser(db, { id: user.userId, username: user.userId, passwordHash: 'none' }));
    return user;
  };
  const publish = async (user: Caller, title: string) => {
    const fields = { userId: user.userId, title, message: 'm', link: '', category: 'compute', scope: '' };
    const { subject, data, msgId } = notificationEvent('test', Date.now(), fields);
    await bus.append(subject, data, { msgId });
  };
  /** What the operator lets a user have, before the sockets that come next. */
  const limit = async (user: Caller, most: number) => {
    await changeLimits(db, user.userId, { notification_sockets: most });
    advance(60_000);
  };
  return { add, person, publish, limit };
}

/** Messages that actors of users have handled in this process. */
const handled = (system: SystemRef) => stats(system).kinds['notify/user']?.handled ?? 0;

async function open(user: Caller, ...nodes: Node[]): Promise<FakeSocket[]> {
  const sockets: FakeSocket[] = [];
  for (const node of nodes) sockets.push(await node.connect(user));
  return sockets;
}

const closed = (sockets: readonly FakeSocket[]) => sockets.map((socket) => socket.closed);
const titles = ({ events }: FakeSocket) => events.map((event) => Reflect.get(Object(event), 'title'));

test('a sixth socket of a user is closed, whichever process the others are in, and a place is free once one has gone', async (t) => {
  const { add, person, publish } = await setting(t);
  const [a, b] = [await add(), await add()];
  await settled(a, b);
  for (const holder of [a, b]) {
    const user = await person((id) => holder.placement.holds(CONNECTION_QUOTA, id));
    const five = await open(user, a, b, a, b, a);
    const sixth = await b.connect(user);
    assert.deepEqual(await sixth.end(), FULL);
    assert.deepEqual(closed(five), Array(5).fill(undefined));

    await publish(user, 'first');
    await publish(user, 'second');
    await until(() => five.every(({ events }) => events.length >= 2), { what: 'all five are told' });
    assert.deepEqual(five.map(titles), Array(5).fill(['first', 'second']));
    assert.deepEqual([await a.unread(user), await b.unread(user)], [2, 2]);
    assert.deepEqual([await a.titles(user), await b.titles(user)], Array(2).fill(['second', 'first']));

    five[0]?.leave();
    const again = await open(user, b, b);
    assert.deepEqual(await again[1]?.end(), FULL);
    assert.deepEqual([again[0]?.closed, ...closed(five.slice(1))], Array(5).fill(undefined));
  }
});

test('the operator raises the limit of one user, and lowers it: no socket that is there goes', async (t) => {
  const { add, person, limit } = await setting(t);
  const [a, b] = [await add(), await add()];
  await settled(a, b);
  const user = await person((id) => a.placement.holds(CONNECTION_QUOTA, id));
  const five = await open(user, a, b, a, b, a);
  await limit(user, 7);
  const seven = [...five, ...(await open(user, b, b))];
  assert.deepEqual(await (await a.connect(user)).end(), FULL);
  await limit(user, 2);
  for (const node of [a, b]) assert.deepEqual(await (await node.connect(user)).end(), FULL);
  assert.deepEqual(closed(seven), Array(7).fill(undefined));
});

test('sockets of a process that died count no more: those that come back elsewhere stay', async (t) => {
  const { add, person } = await setting(t);
  const [b, c] = [await add(), await add()];
  for (const isCounterKilled of [false, true]) {
    const a = await add();
    await settled(a, b, c);
    const user = await person((id) => a.placement.holds(CONNECTION_QUOTA, id) === isCounterKilled);
    await open(user, a, a, a);
    const stay = await open(user, b, b);
    await a.kill();
    // At once, while it is not known yet that the process has died.
    const back = await open(user, c, c, c);
    const sixth = await b.connect(user);
    assert.deepEqual(await sixth.end(), FULL);
    assert.deepEqual(closed([...stay, ...back]), Array(5).fill(undefined));
    await settled(b, c);
  }
});

test('the count goes along when the process that has it leaves', async (t) => {
  const { add, person } = await setting(t);
  const [a, b, c] = [await add(), await add(), await add()];
  await settled(a, b, c);
  const user = await person((id) => c.placement.holds(CONNECTION_QUOTA, id));
  const five = await open(user, a, b, a, b, a);
  await c.end();
  const sixth = await b.connect(user);
  assert.deepEqual(await sixth.end(), FULL);
  assert.deepEqual(closed(five), Array(5).fill(undefined));
});

test('rules: of too many sockets the oldest stay, and those that were there before the limit was lowered', () => {
  const five = { most: 5, changedAt: 0 };
  for (const [nodes, isFull, most] of [
    [
      [
        [1, 2, 3],
        [4, 5],
      ],
      false,
      [3, 2],
    ],
    [[[1, 2, 7], [4, 5], [3]], true, [2, 2, 1]],
    [
      [
        [6, 7],
        [1, 2, 3, 4, 5],
      ],
      true,
      [0, 5],
    ],
  ] as const)
    assert.deepEqual(oldest(nodes, five), { isFull, most });
  const lowered = { most: 2, changedAt: 4 };
  assert.deepEqual(oldest([[1, 3], [2]], lowered), { isFull: false, most: [2, 1] });
  assert.deepEqual(
    oldest(
      [
        [1, 3],
        [2, 5],
      ],
      lowered,
    ),
    { isFull: true, most: [2, 1] },
  );
});
