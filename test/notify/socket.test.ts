/** `/ws/notifications` over real sockets, on all adapters where it matters. */

import assert from 'node:assert/strict';
import { describe, type TestContext, test } from 'node:test';
import { z } from 'zod';
import { StorageError } from '../../storage/db.ts';
import { type TestSocket, UpgradeRefused, websocket } from '../support/clients/websocket.ts';
import { ADAPTERS } from '../support/http/adapters.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { DOMAIN } from '../support/service/node.ts';
import { type NotifyUnderTest, nextOf, openNotify } from '../support/service/notify.ts';
import type { Person } from '../support/service/people.ts';
import { until } from '../support/until.ts';

failOnLeaks();

const titles = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, index) => `n${from + index}`);

async function refusal(work: Promise<unknown>): Promise<[status: number, code: unknown]> {
  try {
    await work;
  } catch (error) {
    assert.ok(error instanceof UpgradeRefused, String(error));
    return [error.status, z.object({ code: z.string() }).parse(JSON.parse(error.body)).code];
  }
  assert.fail('the upgrade was not refused');
}

/** Takes `count` notifications. */
async function take(socket: TestSocket, count: number): Promise<{ id: number; title: string }[]> {
  const taken: { id: number; title: string }[] = [];
  while (taken.length < count) taken.push(await nextOf(socket));
  return taken;
}

/** Nothing more is on its way: what is published next comes next. */
async function nothingMore(notify: NotifyUnderTest, person: Person, socket: TestSocket): Promise<void> {
  await notify.publish(person, { title: 'the last' });
  assert.equal((await nextOf(socket)).title, 'the last');
}

const bare = (t: TestContext, notify: NotifyUnderTest, path: string, headers: Record<string, string> = {}) =>
  websocket(t, notify.url.replace('http', 'ws') + path, { headers });

const FULL = {
  code: 1008,
  reason: 'connection limit reached: close one, or the operator raises it by troupe users limits NAME',
};

test('the token comes in the header or in the query; without a good one there is no upgrade', async (t) => {
  const notify = await openNotify(t);
  const ann = await notify.person('ann');
  const socket = await bare(t, notify, `/ws/notifications?token=${ann.token}`);
  await nothingMore(notify, ann, socket);
  for (const path of ['/ws/notifications', '/ws/notifications?token=', '/ws/notifications?token=x'])
    assert.deepEqual(await refusal(bare(t, notify, path)), [401, 'unauthorized']);
  assert.deepEqual(await refusal(bare(t, notify, `/ws/notification?token=${ann.token}`)), [404, 'not_found']);
  assert.ok(!JSON.stringify(notify.log.lines).includes(ann.token), 'a token is in the log');
});

test('pages of the platform and its subdomains may connect, others may not', async (t) => {
  const notify = await openNotify(t);
  const ann = await notify.person('ann');
  const good = [
    `https://${DOMAIN}`,
    `https://console.${DOMAIN}`,
    `http://a.b.${DOMAIN}:8443`,
    `https://CONSOLE.${DOMAIN.toUpperCase()}`,
  ];
  const bad = [
    'https://evil.test',
    `https://evil${DOMAIN}`,
    `https://${DOMAIN}.evil.test`,
    'https://127.0.0.1',
    'null',
    '',
    DOMAIN,
    `file://${DOMAIN}`,
    `https://${DOMAIN}@evil.test`,
    'https://',
  ];
  for (const origin of good) await (await notify.socket(t, ann, '', { headers: { origin } })).close(1000);
  for (const origin of bad)
    assert.deepEqual(await refusal(notify.socket(t, ann, '', { headers: { origin } })), [403, 'forbidden'], origin);
});

test('a page of the platform reads a refusal in the close of its socket, and strangers get a plain answer', async (t) => {
  const notify = await openNotify(t);
  const ann = await notify.person('ann');
  const ended = async (path: string, origin: string) => (await bare(t, notify, path, { origin })).closed;
  const own = `https://${DOMAIN}`;
  const { code, reason } = await ended('/ws/notifications?token=x', own);
  assert.deepEqual(
    [code, reason],
    [4401, 'You are not logged in: send a valid token as "Authorization: Bearer <token>".'],
  );
  assert.equal((await ended(`/ws/notifications?token=${ann.token}&since=x`, own)).code, 4400);
  assert.equal((await ended(`/ws/notification?token=${ann.token}`, own)).code, 4404);
  const stranger = bare(t, notify, '/ws/notifications?token=x', { origin: 'https://evil.test' });
  assert.deepEqual(await refusal(stranger), [403, 'forbidden']);
});

test('since is a whole number, or there is no upgrade', async (t) => {
  const notify = await openNotify(t);
  const ann = await notify.person('ann');
  for (const since of ['-1', 'x', '1.5', '', '1e3', '9999999999999999', '0x1', '%2B1', '1;2'])
    assert.deepEqual(await refusal(notify.socket(t, ann, `?since=${since}`)), [400, 'invalid_request'], since);
});

for (const adapter of ADAPTERS) {
  describe(`replay and follow on ${adapter}`, () => {
    test('several pages are replayed, then it follows', async (t) => {
      const notify = await openNotify(t, { adapter });
      const ann = await notify.person('ann');
      await notify.stored(ann, titles(1, 350));
      const socket = await notify.socket(t, ann, '?since=0');
      const all = await take(socket, 350);
      assert.deepEqual(all.map(({ title }) => title).sort(), titles(1, 350).sort());
      for (const [index, { id }] of all.entries()) assert.ok(index === 0 || id > (all[index - 1]?.id ?? 0));
      await nothingMore(notify, ann, socket);
      const [third, second] = [all[347], all[348]];
      assert.ok(second && third);
      const later = await notify.socket(t, ann, `?since=${third.id}`);
      assert.equal((await nextOf(later)).id, second.id);
    });

    test('without since nothing of the past comes; with an id that is to come neither, and nothing of the future is missed', async (t) => {
      const notify = await openNotify(t, { adapter });
      const ann = await notify.person('ann');
      await notify.stored(ann, titles(1, 3));
      const sockets = [
        await notify.socket(t, ann),
        await notify.socket(t, ann, '?since=999999999999999'),
        await notify.socket(t, ann, `?since=${(await notify.list(ann))[0]?.id}`),
      ];
      await notify.publish(ann, { title: 'new' });
      for (const socket of sockets) assert.equal((await nextOf(socket)).title, 'new');
    });

    test('clients that come and go while notifications arrive see each id once and in order', async (t) => {
      const notify = await openNotify(t, { adapter });
      const ann = await notify.person('ann');
      const total = 600;
      const seen: number[] = [];
      let publishing = true;
      const publisher = (async () => {
        for (let sent = 0; sent < total; sent += 20) {
          await Promise.all(titles(sent, sent + 19).map((title) => notify.publish(ann, { title })));
        }
        publishing = false;
      })();
      let connections = 0;
      while (seen.length < total) {
        connections += 1;
        const socket = await notify.socket(t, ann, `?since=${seen.at(-1) ?? 0}`);
        // A few, and away: some when the client says so, some by a cut.
        const few = publishing || connections <= 12 ? 1 + ((connections * 7) % 40) : total;
        for (let taken = 0; taken < few && seen.length < total; taken++) seen.push((await nextOf(socket)).id);
        if (connections % 2 === 0) socket.socket.terminate();
        else await socket.close(1000);
      }
      await publisher;
      assert.ok(connections > 10);
      const rows = [];
      for (let offset = 0; offset < total; offset += 100)
        rows.push(...(await notify.list(ann, `?limit=100&offset=${offset}`)));
      assert.deepEqual(seen, rows.map(({ id }) => id).reverse());
    });

    test('a sixth socket of a user is closed at once, and a place is free once another has gone', async (t) => {
      const notify = await openNotify(t, { adapter });
      const [ann, bob] = [await notify.person('ann'), await notify.person('bob')];
      const five = [];
      for (let n = 0; n < 5; n++) five.push(await notify.socket(t, ann));
      const sixth = await notify.socket(t, ann, '?since=0');
      assert.deepEqual(await sixth.closed, FULL);
      assert.equal(sixth.queued(), 0);
      await nothingMore(notify, bob, await notify.socket(t, bob));
      await notify.publish(ann, { title: 'to five' });
      for (const socket of five) assert.equal((await nextOf(socket)).title, 'to five');
      await five[0]?.close(1000);
      await until(() => notify.numbers.sockets === 5, { what: 'four of Ann, one of Bob' });
      const again = await notify.socket(t, ann);
      await nothingMore(notify, ann, again);
      assert.deepEqual(await (await notify.socket(t, ann)).closed, FULL);
    });

    test('a reader that stops reading costs no memory, delays nobody, and gets the rest when it reads on', async (t) => {
      const notify = await openNotify(t, { adapter, maxBufferedBytes: 256 * 1024 });
      const ann = await notify.person('ann');
      const [slow, quick] = [await notify.socket(t, ann, '?since=0'), await notify.socket(t, ann, '?since=0')];
      slow.socket.pause();
      // More than the kernel's buffers of a loopback connection hold.
      const message = 'x'.repeat(8000);
      const total = 1500;
      for (let sent = 0; sent < total; sent += 100) {
        await Promise.all(titles(sent, sent + 99).map((title) => notify.publish(ann, { title, message })));
      }
      const all = await take(quick, total);
      slow.socket.resume();
      assert.deepEqual(await take(slow, total), all);
      await nothingMore(notify, ann, slow);
    });

    test('a reader that never reads on is closed with 1013, and comes back with since', async (t) => {
      const notify = await openNotify(t, { adapter, slowMs: 300 });
      const ann = await notify.person('ann');
      const socket = await notify.socket(t, ann, '?since=0');
      const first = nextOf(socket);
      await notify.publish(ann, { title: 'first' });
      const { id } = await first;
      socket.socket.pause();
      const message = 'x'.repeat(8000);
      for (let sent = 0; sent < 1200; sent += 100)
        await Promise.all(titles(sent, sent + 99).map((title) => notify.publish(ann, { title, message })));
      await until(() => notify.numbers.sockets === 0, { what: 'the slow socket is closed' });
      socket.socket.resume();
      const end = await socket.closed;
      assert.ok(end.code === 1013 || end.code === 1006, String(end.code));
      const again = await notify.socket(t, ann, `?since=${id}`);
      assert.equal((await take(again, 1200)).length, 1200);
    });
  });
}

test('frames from the client are refused', async (t) => {
  const notify = await openNotify(t);
  const ann = await notify.person('ann');
  for (const data of ['hello', new Uint8Array([1])]) {
    const socket = await notify.socket(t, ann);
    socket.send(data);
    assert.equal((await socket.closed).code, 1003);
  }
});

test('the server pings, and a peer that answers nothing is cut', async (t) => {
  const notify = await openNotify(t, { pingMs: 100 });
  const ann = await notify.person('ann');
  const alive = await notify.socket(t, ann);
  const dead = await notify.socket(t, ann, '', { autoPong: false });
  let pings = 0;
  alive.socket.on('ping', () => pings++);
  assert.equal((await dead.closed).code, 1006);
  await until(() => pings > 3);
  await nothingMore(notify, ann, alive);
  await until(() => notify.numbers.sockets === 1);
});

test('a token that expires, and a user that is gone, close the socket', async (t) => {
  const notify = await openNotify(t);
  const [ann, bob] = [await notify.person('ann', 2), await notify.person('bob')];
  const [expiring, revoked] = [await notify.socket(t, ann), await notify.socket(t, bob)];
  assert.deepEqual(await expiring.closed, { code: 1008, reason: 'token expired' });
  await notify.forgetUser(bob);
  assert.deepEqual(await revoked.closed, { code: 1008, reason: 'token revoked' });
  assert.deepEqual(await refusal(notify.socket(t, bob)), [401, 'unauthorized']);
});

test('the database away: no upgrade without it, and an open socket goes on once it is back', async (t) => {
  const notify = await openNotify(t);
  const [ann, bob] = [await notify.person('ann'), await notify.person('bob')];
  const open = await notify.socket(t, ann);
  await nothingMore(notify, ann, open);
  notify.db.failure = new StorageError('unavailable', 'gone');
  assert.deepEqual(await refusal(notify.socket(t, bob)), [503, 'unavailable']);
  await notify.publish(ann, { title: 'meanwhile' });
  notify.db.failure = undefined;
  assert.equal((await nextOf(open)).title, 'meanwhile');
  await nothingMore(notify, bob, await notify.socket(t, bob));
});

test('a replay that meets a database that is away goes on when it is back', async (t) => {
  const notify = await openNotify(t);
  const ann = await notify.person('ann');
  await notify.stored(ann, titles(1, 3));
  notify.db.failure = new StorageError('unavailable', 'gone');
  const socket = await notify.socket(t, ann, '?since=0');
  await until(() => notify.log.lines.some(({ message }) => message === 'notifications could not be read for a socket'));
  notify.db.failure = undefined;
  assert.equal((await take(socket, 3)).length, 3);
  await nothingMore(notify, ann, socket);
});

test('a thousand clients that come back at once all get what they missed', async (t) => {
  const notify = await openNotify(t);
  const people = [];
  for (let n = 0; n < 200; n++) people.push(await notify.person(`user${n}`));
  await Promise.all(
    people.flatMap((person) => [notify.publish(person, { title: 'a' }), notify.publish(person, { title: 'b' })]),
  );
  await until(() => notify.numbers.stored === 400);
  const clients = await Promise.all(
    people.flatMap((person) => Array.from({ length: 5 }, () => notify.socket(t, person, '?since=0'))),
  );
  assert.equal(clients.length, 1000);
  await Promise.all(
    clients.map(async (client) => {
      const [first, second] = await take(client, 2);
      assert.ok(first && second && first.id < second.id);
    }),
  );
  assert.equal(notify.numbers.sockets, 1000);
});

test('somebody with very many unread gets them all, in order, in bounded pages', async (t) => {
  const notify = await openNotify(t);
  const ann = await notify.person('ann');
  await notify.outside.run(
    `insert into notifications (user_id, event_id, title, message, link, category, scope, created_at)
     select $1, 'e' || n, 'n' || n, 'm', '', '', '', now() from generate_series(1, 30000) as n`,
    [ann.id],
  );
  assert.deepEqual((await notify.get(ann, '/api/notifications/unread-count')).json, { count: 30_000 });
  const socket = await notify.socket(t, ann, '?since=0');
  let last = 0;
  for (let n = 1; n <= 30_000; n++) {
    const frame = await socket.next();
    assert.ok('text' in frame);
    const id = Number(/"id":(\d+)/.exec(frame.text)?.[1]);
    assert.ok(id > last);
    last = id;
    // The client of the tests stops at 10,000 waiting frames.
    if (socket.queued() < 1000) socket.socket.resume();
  }
  await nothingMore(notify, ann, socket);
  assert.equal((await notify.request(ann, 'POST', '/api/notifications/read-all')).status, 200);
  assert.deepEqual((await notify.get(ann, '/api/notifications/unread-count')).json, { count: 0 });
});

test('the service stops: sockets are told to come back', async (t) => {
  const notify = await openNotify(t);
  const ann = await notify.person('ann');
  const socket = await notify.socket(t, ann);
  await nothingMore(notify, ann, socket);
  const { stop } = await import('../../supervision/index.ts');
  stop(notify.system);
  assert.deepEqual(await socket.closed, { code: 1012, reason: 'service restarts' });
});

test('with v=2 messages have a type, and tell what was read; without it nothing changes', async (t) => {
  const notify = await openNotify(t);
  const [ann, bob] = [await notify.person('ann'), await notify.person('bob')];
  const [plain, events, stranger] = [
    await notify.socket(t, ann),
    await notify.socket(t, ann, '?v=2&since=0'),
    await notify.socket(t, bob, '?v=2'),
  ];
  await notify.publish(ann, { title: 'first' });
  const { id } = await nextOf(plain);
  const [first] = await notify.list(ann);
  assert.deepEqual(await events.json(), { type: 'notification', ...first });
  await notify.request(ann, 'POST', `/api/notifications/${id}/read`);
  assert.deepEqual(await events.json(), { type: 'read', id });
  await notify.request(ann, 'POST', '/api/notifications/read-all');
  assert.deepEqual(await events.json(), { type: 'read', id: null });
  // Nobody else, and no plain socket, was told of it.
  await nothingMore(notify, ann, plain);
  await notify.publish(bob, { title: 'his' });
  assert.equal(z.object({ title: z.string() }).parse(await stranger.json()).title, 'his');
});
