/** The REST interface of notifications, endpoint by endpoint. */

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { z } from 'zod';
import { challengeTokens } from '../../actors/auth/tokens/issue-tokens.ts';
import { muteSchema } from '../../proto/notify/endpoints.ts';
import { request } from '../support/cluster/platform.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { SECRET } from '../support/service/node.ts';
import { type NotifyUnderTest, openNotify } from '../support/service/notify.ts';
import type { Person } from '../support/service/people.ts';
import { until } from '../support/until.ts';

failOnLeaks();

const ROWS = [
  ['GET', '/api/notifications'],
  ['GET', '/api/notifications/unread-count'],
  ['POST', '/api/notifications/1/read'],
  ['POST', '/api/notifications/read-all'],
  ['GET', '/api/notifications/mutes'],
  ['PUT', '/api/notifications/mutes'],
  ['DELETE', '/api/notifications/mutes'],
] as const;
const titles = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, index) => `n${from + index}`);
const MUTE = { category: 'compute', scope: '' };

describe('the REST interface', () => {
  let notify: NotifyUnderTest;
  const ends: (() => Promise<void> | void)[] = [];
  before(async () => {
    notify = await openNotify({ after: (end) => void ends.push(end) });
  });
  after(async () => {
    for (const end of ends) await end();
  });
  const count = async (person: Person) => (await notify.get(person, '/api/notifications/unread-count')).json;

  test('needs a login: nothing else opens it', async () => {
    const ann = await notify.person('ann');
    const challenge = await challengeTokens(SECRET, notify.clock)({ id: ann.id, username: 'ann' });
    const tokens: [string | undefined, number][] = [
      [undefined, 401],
      ['x', 401],
      [`${ann.token}x`, 401],
      [challenge, 401],
      [ann.token.split('.').with(2, 'AAAA').join('.'), 401],
    ];
    for (const [method, path] of ROWS) {
      for (const [token, status] of tokens) {
        const reply = await request(method, notify.url + path, {
          ...(token === undefined ? {} : { token }),
          ...(method === 'GET' ? {} : { body: MUTE }),
        });
        assert.equal(reply.status, status, `${method} ${path}`);
        assert.deepEqual(Object.keys(reply.json).sort(), ['code', 'error']);
      }
      // A token in the query opens the socket only.
      const query = await request(
        method,
        `${notify.url}${path}?token=${ann.token}`,
        method === 'GET' ? {} : { body: MUTE },
      );
      assert.equal(query.status, 401);
    }
  });

  test('lists newest first, in pages of 20 up to 100', async () => {
    const bob = await notify.person('bob');
    assert.deepEqual(await notify.list(bob), []);
    await notify.stored(bob, titles(1, 130));
    const all = [...(await notify.list(bob, '?limit=100')), ...(await notify.list(bob, '?limit=100&offset=100'))];
    assert.equal(all.length, 130);
    for (const [index, one] of all.entries()) {
      const next = all[index + 1];
      assert.ok(next === undefined || (one.id > next.id && one.created_at >= next.created_at));
    }
    assert.deepEqual(await notify.list(bob), all.slice(0, 20));
    assert.deepEqual(await notify.list(bob, '?limit=3&offset=5'), all.slice(5, 8));
    assert.deepEqual(await notify.list(bob, '?limit=101'), all.slice(0, 100));
    assert.deepEqual(await notify.list(bob, '?limit=999999999999999'), all.slice(0, 100));
    assert.deepEqual(await notify.list(bob, '?limit=0'), []);
    assert.deepEqual(await notify.list(bob, '?offset=130'), []);
    assert.deepEqual(await notify.list(bob, '?offset=999999999999999'), []);
    for (const query of [
      'limit=-1',
      'limit=x',
      'limit=1.5',
      'limit=',
      'limit=1e3',
      'limit=%2B1',
      'offset=-1',
      'offset=NaN',
    ]) {
      const reply = await notify.get(bob, `/api/notifications?${query}`);
      assert.equal(reply.status, 400, query);
      assert.equal(reply.json.code, 'invalid_request');
    }
  });

  test('lists those before an id, those unread and those of a category, alone and together', async () => {
    const pat = await notify.person('pat');
    await notify.stored(pat, titles(1, 4));
    await notify.stored(pat, ['s1', 's2'], { category: 'storage' });
    const all = await notify.list(pat);
    const [newest, , third] = all;
    assert.ok(newest && third);
    const listed = async (query: string) => (await notify.list(pat, query)).map(({ title }) => title);
    assert.deepEqual(await listed(`?before=${third.id}`), ['n3', 'n2', 'n1']);
    assert.deepEqual(await listed(`?before=${third.id}&limit=1&offset=1`), ['n2']);
    assert.deepEqual(await listed('?before=0'), []);
    assert.deepEqual(await listed('?category=storage'), ['s2', 's1']);
    assert.deepEqual(await listed('?category=none'), []);
    await notify.request(pat, 'POST', `/api/notifications/${newest.id}/read`);
    assert.deepEqual(await listed('?unread=1'), ['s1', 'n4', 'n3', 'n2', 'n1']);
    assert.deepEqual(await listed('?unread=0&limit=1'), ['s2']);
    assert.deepEqual(await listed('?unread=1&category=storage'), ['s1']);
    for (const query of ['before=x', 'before=-1', 'unread=yes', `category=${'c'.repeat(65)}`])
      assert.equal((await notify.get(pat, `/api/notifications?${query}`)).status, 400, query);
  });

  test('counts what is unread, marks one and all as read, of the caller only', async () => {
    const [cid, dot] = [await notify.person('cid'), await notify.person('dot')];
    assert.deepEqual(await count(cid), { count: 0 });
    await notify.stored(cid, titles(1, 5));
    await notify.stored(dot, titles(1, 2));
    const [newest] = await notify.list(cid);
    assert.ok(newest);
    const read = (person: Person, id: unknown) => notify.request(person, 'POST', `/api/notifications/${id}/read`);
    assert.equal((await read(dot, newest.id)).status, 404);
    assert.deepEqual(await count(cid), { count: 5 });
    for (let again = 0; again < 2; again++) {
      const reply = await read(cid, newest.id);
      assert.deepEqual([reply.status, reply.json], [200, { status: 'ok' }]);
      assert.deepEqual(await count(cid), { count: 4 });
    }
    assert.deepEqual(
      (await notify.list(cid)).map(({ read }) => read),
      [true, false, false, false, false],
    );
    for (const id of [0, -1, '1.0', 'x', '9999999999999999', '99999999999999', '1%00', "1'--", '01', '+1'])
      assert.equal((await read(cid, id)).status, 404, String(id));
    const all = await notify.request(cid, 'POST', '/api/notifications/read-all');
    assert.deepEqual([all.status, all.json], [200, { status: 'ok' }]);
    assert.deepEqual([await count(cid), await count(dot)], [{ count: 0 }, { count: 2 }]);
    assert.ok((await notify.list(cid)).every(({ read }) => read));
    await notify.stored(cid, ['one more']);
    assert.deepEqual(await count(cid), { count: 1 });
  });

  test('mutes are a set of category and scope, of the caller only', async () => {
    const [eve, fay] = [await notify.person('eve'), await notify.person('fay')];
    const mutes = async (person: Person) => {
      const reply = await notify.get(person, '/api/notifications/mutes');
      assert.equal(reply.status, 200);
      return z.array(muteSchema.strict()).parse(reply.json.list);
    };
    assert.deepEqual(await mutes(eve), []);
    for (const body of [MUTE, { category: 'storage', scope: 'photos' }, MUTE, { category: '', scope: '' }]) {
      const reply = await notify.request(eve, 'PUT', '/api/notifications/mutes', body);
      assert.deepEqual([reply.status, reply.json], [200, { status: 'ok' }]);
    }
    const found = await mutes(eve);
    assert.deepEqual(
      found.map(({ user_id, category, scope }) => [user_id, category, scope]),
      [
        [eve.id, 'compute', ''],
        [eve.id, 'storage', 'photos'],
        [eve.id, '', ''],
      ],
    );
    assert.equal(new Set(found.map(({ id }) => id)).size, 3);
    assert.deepEqual(await mutes(fay), []);
    assert.equal((await notify.request(fay, 'DELETE', '/api/notifications/mutes', MUTE)).status, 200);
    assert.equal((await mutes(eve)).length, 3);
    for (let again = 0; again < 2; again++) {
      const reply = await notify.request(eve, 'DELETE', '/api/notifications/mutes', MUTE);
      assert.deepEqual([reply.status, reply.json], [200, { status: 'ok' }]);
    }
    assert.deepEqual(
      (await mutes(eve)).map(({ category }) => category),
      ['storage', ''],
    );
  });

  test('bodies of mutes are checked, and their number is bounded', async () => {
    const gus = await notify.person('gus');
    const bad: unknown[] = [
      {},
      [],
      null,
      'compute',
      { category: 'compute' },
      { scope: '' },
      { category: 1, scope: '' },
      { category: 'compute', scope: null },
      { category: 'c'.repeat(65), scope: '' },
      { category: 'c', scope: 's'.repeat(257) },
      { category: 'a\0b', scope: '' },
    ];
    for (const method of ['PUT', 'DELETE']) {
      for (const body of bad) {
        const reply = await notify.request(gus, method, '/api/notifications/mutes', body);
        assert.equal(reply.status, 400, JSON.stringify(body));
      }
      const raw = await request(method, `${notify.url}/api/notifications/mutes`, { token: gus.token, raw: '{' });
      assert.deepEqual([raw.status, raw.json.code], [400, 'invalid_json']);
    }
    await notify.outside.run(
      `insert into notification_mutes (user_id, category, scope) select $1, 'storage', n::text from generate_series(1, 999) as n`,
      [gus.id],
    );
    const both = await Promise.all(
      ['x', 'y'].map((scope) => notify.request(gus, 'PUT', '/api/notifications/mutes', { category: 'storage', scope })),
    );
    assert.deepEqual(both.map(({ status }) => status).sort(), [200, 403]);
    assert.equal(
      (await notify.request(gus, 'PUT', '/api/notifications/mutes', { category: 'storage', scope: '7' })).status,
      200,
    );
  });

  test('what is muted is dropped, also while its user is connected, and nothing else is', async (t) => {
    const [hal, ida] = [await notify.person('hal'), await notify.person('ida')];
    for (const body of [MUTE, { category: 'storage', scope: 'photos' }])
      await notify.request(hal, 'PUT', '/api/notifications/mutes', body);
    const socket = await notify.socket(t, hal);
    const told: [string, string, string][] = [
      ['compute', '', 'muted'],
      ['compute', 'anything', 'muted with its category'],
      ['storage', 'photos', 'muted'],
      ['storage', 'photos2', 'another scope'],
      ['storage', '', 'no scope'],
      ['auth', '', 'another category'],
      ['', '', 'no category'],
    ];
    const before = notify.numbers.muted;
    for (const [category, scope, title] of told) await notify.publish(hal, { category, scope, title });
    await notify.publish(ida);
    await until(async () => (await notify.list(hal)).length === 4 && (await notify.list(ida)).length === 1);
    assert.deepEqual(
      (await notify.list(hal)).map(({ title }) => title),
      ['no category', 'another category', 'no scope', 'another scope'],
    );
    assert.equal(notify.numbers.muted - before, 3);
    for (const title of ['another scope', 'no scope', 'another category', 'no category'])
      assert.equal(z.object({ title: z.string() }).parse(await socket.json()).title, title);
    await notify.request(hal, 'DELETE', '/api/notifications/mutes', MUTE);
    await notify.publish(hal, { title: 'heard again' });
    assert.equal(z.object({ title: z.string() }).parse(await socket.json()).title, 'heard again');
    assert.equal(socket.queued(), 0);
  });

  test('unread counts are right while notifications come and are read at once', async () => {
    const jan = await notify.person('jan');
    const reads = async () => {
      for (const { id } of await notify.list(jan, '?limit=7'))
        await notify.request(jan, 'POST', `/api/notifications/${id}/read`);
    };
    const publishing = Promise.all(titles(1, 150).map((title) => notify.publish(jan, { title })));
    for (let round = 0; round < 6; round++) await reads();
    await notify.request(jan, 'POST', '/api/notifications/read-all');
    await publishing;
    const total = async () =>
      (await notify.list(jan, '?limit=100')).length + (await notify.list(jan, '?limit=100&offset=100')).length;
    await until(async () => (await total()) === 150);
    const all = [...(await notify.list(jan, '?limit=100')), ...(await notify.list(jan, '?limit=100&offset=100'))];
    assert.deepEqual(await count(jan), { count: all.filter(({ read }) => !read).length });
  });

  test('the database away is 503, and over as soon as it is back', async () => {
    const kay = await notify.person('kay');
    assert.equal((await notify.get(kay, '/api/notifications')).status, 200);
    const { StorageError } = await import('../../storage/db.ts');
    notify.db.failure = new StorageError('unavailable', 'gone');
    const away = await notify.get(kay, '/api/notifications');
    assert.deepEqual([away.status, away.json.code], [503, 'unavailable']);
    assert.ok(Number(away.headers.get('retry-after')) > 0);
    assert.equal((await notify.service.health()).ok, false);
    notify.db.failure = undefined;
    assert.equal((await notify.get(kay, '/api/notifications')).status, 200);
    assert.equal((await notify.service.health()).ok, true);
  });

  test('other methods and paths are refused', async () => {
    const leo = await notify.person('leo');
    assert.equal((await notify.request(leo, 'POST', '/api/notifications')).status, 405);
    assert.equal((await notify.request(leo, 'POST', '/api/notifications/unread-count')).status, 405);
    assert.equal((await notify.get(leo, '/api/notifications/1')).status, 404);
    assert.equal((await notify.get(leo, '/ws/notifications')).status, 426);
  });
});
