/** SQL of notifications that the service's own tests do not reach: order under rivals, retention, and questions asked together. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { z } from 'zod';
import { newId } from '../../proto/ids.ts';
import { insertUser } from '../../storage/auth/users.ts';
import { storeNotifications } from '../../storage/notify/arrivals.ts';
import {
  headsOf,
  listNotifications,
  notificationsAfter,
  purgeNotifications,
} from '../../storage/notify/notifications.ts';
import type { Queries } from '../../storage/queries.ts';
import { testDatabase } from '../support/database/database.ts';
import { failOnLeaks } from '../support/leaks.ts';

failOnLeaks();

const FAST = { headsOf: [], mayBeKnown: false };
const one = (userId: string, eventId: string) => ({
  ...{ userId, eventId, title: eventId, message: 'm', link: '', category: '', scope: '' },
});

test('a reader that follows rivals who add at the same time misses no id and sees no time go back', async (t) => {
  const { db, close } = await testDatabase();
  t.after(close);
  const userId = newId();
  await insertUser(db, { id: userId, username: 'ann', passwordHash: 'none' });
  let adding = true;
  const adders = Promise.all(
    Array.from({ length: 6 }, async (_, rival) => {
      for (let round = 0; round < 30; round++) {
        const batch = Array.from({ length: 1 + ((rival + round) % 4) }, (_, n) =>
          one(userId, `${rival}.${round}.${n}`),
        );
        const { arrivals, heads } = await storeNotifications(db, batch, {
          headsOf: [userId],
          mayBeKnown: rival % 2 === 0,
        });
        const [first] = arrivals;
        assert.ok(typeof first === 'object' && (heads.get(userId) ?? -1) < first.id);
      }
    }),
  ).finally(() => {
    adding = false;
  });
  const seen: { id: number; createdAt: Date }[] = [];
  for (let isDone = false; !isDone; ) {
    const wasAdding = adding; // An empty page is the end only when nobody was adding before it was read.
    const [page = []] = await notificationsAfter(db, [{ userId, since: seen.at(-1)?.id ?? 0 }], 7);
    seen.push(...page);
    isDone = page.length === 0 && !wasAdding;
  }
  await adders;
  const all = (await listNotifications(db, userId, { limit: 1000, offset: 0 })).reverse();
  assert.ok(all.length > 300);
  assert.deepEqual(
    seen.map(({ id }) => id),
    all.map(({ id }) => id),
  );
  for (const [index, { createdAt }] of all.entries())
    assert.ok(index === 0 || createdAt >= (all[index - 1]?.createdAt ?? 0));
});

test('who stores for one user does not wait for a transaction that stores for another', async (t) => {
  const { db, close } = await testDatabase();
  t.after(close);
  // By the last letter of their ids, these two are never in one part.
  const [ann, bob] = ['annannannana', 'bobbobbobbob'];
  await insertUser(db, { id: ann, username: 'ann', passwordHash: 'none' });
  await insertUser(db, { id: bob, username: 'bob', passwordHash: 'none' });
  const store = (tx: Queries, userId: string, eventId: string) =>
    tx.run(`select * from store_notifications($1, $2, '{t}', '{m}', '{""}', '{""}', '{""}', '{}', false)`, [
      [userId],
      [eventId],
    ]);
  await db.tx(async (open) => {
    await store(open, ann, 'held');
    await db.tx(async (other) => {
      await other.run("set local lock_timeout = '10s'");
      await store(other, bob, 'beside');
    });
    const sameUser = db.tx(async (other) => {
      await other.run("set local lock_timeout = '50ms'");
      await store(other, ann, 'behind');
    });
    await assert.rejects(sameUser, /lock timeout/);
    const pages = await notificationsAfter(
      db,
      [ann, bob].map((userId) => ({ userId, since: 0 })),
      10,
    );
    assert.deepEqual(
      pages.map((page) => page.map(({ title }) => title)),
      [[], ['t']],
    );
  });
});

test('batches of the same users in any order do not block each other for good', async (t) => {
  const { db, close } = await testDatabase();
  t.after(close);
  const users = Array.from({ length: 100 }, newId);
  for (const id of users) await insertUser(db, { id, username: id, passwordHash: 'none' });
  await Promise.all(
    Array.from({ length: 6 }, async (_, rival) => {
      for (let round = 0; round < 10; round++) {
        const turned = [...users.slice(rival * 15), ...users.slice(0, rival * 15)];
        const order = (rival + round) % 2 === 0 ? turned : turned.reverse();
        const batch = order.map((userId) => one(userId, `${rival}.${round}`));
        const { arrivals } = await storeNotifications(db, batch, FAST);
        assert.ok(arrivals.every((arrival) => typeof arrival === 'object'));
      }
    }),
  );
});

test('times follow the ids even when the clock was set back', async (t) => {
  const { db, close } = await testDatabase();
  t.after(close);
  const userId = newId();
  await insertUser(db, { id: userId, username: 'ann', passwordHash: 'none' });
  await db.run("update notification_turn set last_at = now() + interval '1 hour'");
  await storeNotifications(db, [one(userId, 'a')], FAST);
  await storeNotifications(db, [one(userId, 'b')], FAST);
  const [b, a] = await listNotifications(db, userId, { limit: 2, offset: 0 });
  assert.ok(a && b && a.title === 'a' && b.createdAt >= a.createdAt && a.createdAt.getTime() > Date.now() + 3_000_000);
});

test('pages and heads of many users come in the order they were asked for', async (t) => {
  const { db, close } = await testDatabase();
  t.after(close);
  const [ann, bob, cid] = [newId(), newId(), newId()];
  for (const [id, username] of [
    [ann, 'ann'],
    [bob, 'bob'],
  ] as const)
    await insertUser(db, { id, username, passwordHash: 'x' });
  const { arrivals } = await storeNotifications(
    db,
    [one(ann, '1'), one(bob, '2'), one(ann, '3'), one(cid, '4'), one(ann, '1')],
    FAST,
  );
  const ids = arrivals.map((arrival) => (typeof arrival === 'object' ? arrival.id : arrival));
  assert.deepEqual(ids.slice(3), ['no_user', 'known']);
  const [first, second, third] = ids;
  assert.deepEqual(await headsOf(db, [bob, cid, ann]), [second, 0, third]);
  const pages = await notificationsAfter(
    db,
    [
      { userId: cid, since: 0 },
      { userId: ann, since: 0 },
      { userId: bob, since: Number(second) },
      { userId: ann, since: Number(first) },
    ],
    1,
  );
  assert.deepEqual(
    pages.map((page) => page.map(({ id }) => id)),
    [[], [first], [], [third]],
  );
});

test('what is older than it is kept goes, some at a time', async (t) => {
  const { db, close } = await testDatabase();
  t.after(close);
  await db.run(
    `insert into notifications (user_id, event_id, title, message, link, category, scope, created_at)
     select 'u', n::text, 't', 'm', '', '', '', now() - n * interval '1 day' from generate_series(85, 94) as n`,
  );
  assert.equal(await purgeNotifications(db, 90, 3), 3);
  assert.equal(await purgeNotifications(db, 90, 3), 2);
  const left = await db.one(z.object({ count: z.number() }), 'select count(*) as count from notifications');
  assert.equal(left?.count, 5);
});
