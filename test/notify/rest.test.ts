/** Every row of interface section 4.7 over HTTP. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { z } from 'zod';
import { challengeTokens } from '../../actors/auth/tokens/issue-tokens.ts';
import { muteSchema } from '../../proto/notify/endpoints.ts';
import { request } from '../support/cluster/platform.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { type House, openHouse, type Person, SECRET } from '../support/service/notify.ts';
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
  let house: House;
  const ends: (() => Promise<void> | void)[] = [];
  before(async () => {
    house = await openHouse({ after: (end) => void ends.push(end) });
  });
  after(async () => {
    for (const end of ends) await end();
  });
  const count = async (person: Person) => (await house.get(person, '/api/notifications/unread-count')).json;

  test('needs a login: nothing else opens it', async () => {
    const ann = await house.person('ann');
    const challenge = await challengeTokens(SECRET, house.clock)({ id: ann.id, username: 'ann' });
    const tokens: [string | undefined, number][] = [
      [undefined, 401],
      ['x', 401],
      [`${ann.token}x`, 401],
      [challenge, 401],
      [ann.token.split('.').with(2, 'AAAA').join('.'), 401],
    ];
    for (const [method, path] of ROWS) {
      for (const [token, status] of tokens) {
        const reply = await request(method, house.url + path, {
          ...(token === undefined ? {} : { token }),
          ...(method === 'GET' ? {} : { body: MUTE }),
        });
        assert.equal(reply.status, status, `${method} ${path}`);
        assert.deepEqual(Object.keys(reply.json).sort(), ['code', 'error']);
      }
      // A token in the query opens the socket only.
      const query = await request(
        method,
        `${house.url}${path}?token=${ann.token}`,
        method === 'GET' ? {} : { body: MUTE },
      );
      assert.equal(query.status, 401);
    }
  });

  test('lists newest first, in pages of 20 up to 100', async () => {
    const bob = await house.person('bob');
    assert.deepEqual(await house.list(bob), []);
    await house.stored(bob, titles(1, 130));
    const all = [...(await house.list(bob, '?limit=100')), ...(await house.list(bob, '?limit=100&offset=100'))];
    assert.equal(all.length, 130);
    for (const [index, one] of all.entries()) {
      const next = all[index + 1];
      assert.ok(next === undefined || (one.id > next.id && one.created_at >= next.created_at));
    }
    assert.deepEqual(await house.list(bob), all.slice(0, 20));
    assert.deepEqual(await house.list(bob, '?limit=3&offset=5'), all.slice(5, 8));
    assert.deepEqual(await house.list(bob, '?limit=101'), all.slice(0, 100));
    assert.deepEqual(await house.list(bob, '?limit=999999999999999'), all.slice(0, 100));
    assert.deepEqual(await house.list(bob, '?limit=0'), []);
    assert.deepEqual(await house.list(bob, '?offset=130'), []);
    assert.deepEqual(await house.list(bob, '?offset=999999999999999'), []);
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
      const reply = await house.get(bob, `/api/notifications?${query}`);
      assert.equal(reply.status, 400, query);
      assert.equal(reply.json.code, 'invalid_request');
    }
  });

  test('counts what is unread, marks one and all as read, of the caller only', async () => {
    const [cid, dot] = [await house.person('cid'), await house.person('dot')];
    assert.deepEqual(await count(cid), { count: 0 });
    await house.stored(cid, titles(1, 5));
    await house.stored(dot, titles(1, 2));
    const [newest] = await house.list(cid);
    assert.ok(newest);
    const read = (person: Person, id: unknown) => house.call(person, 'POST', `/api/notifications/${id}/read`);
    assert.equal((await read(dot, newest.id)).status, 404);
    assert.deepEqual(await count(cid), { count: 5 });
    for (let again = 0; again < 2; again++) {
      const reply = await read(cid, newest.id);
      assert.deepEqual([reply.status, reply.json], [200, { status: 'ok' }]);
      assert.deepEqual(await count(cid), { count: 4 });
    }
    assert.deepEqual(
      (await house.list(cid)).map(({ read }) => read),
      [true, false, false, false, false],
    );
    for (const id of [0, -1, '1.0', 'x', '9999999999999999', '99999999999999', '1%00', "1'--", '01', '+1'])
      assert.equal((await read(cid, id)).status, 404, String(id));
    const all = await house.call(cid, 'POST', '/api/notifications/read-all');
    assert.deepEqual([all.status, all.json], [200, { status: 'ok' }]);
    assert.deepEqual([await count(cid), await count(dot)], [{ count: 0 }, { count: 2 }]);
    assert.ok((await house.list(cid)).every(({ read }) => read));
    await house.stored(cid, ['one more']);
    assert.deepEqual(await count(cid), { count: 1 });
  });

  test('mutes are a set of category and scope, of the caller only', async () => {
    const [eve, fay] = [await house.person('eve'), await house.person('fay')];
    const mutes = async (person: Person) => {
      const reply = await house.get(person, '/api/notifications/mutes');
      assert.equal(reply.status, 200);
      return z.array(muteSchema.strict()).parse(reply.json.list);
    };
    assert.deepEqual(await mutes(eve), []);
    for (const body of [MUTE, { category: 'storage', scope: 'photos' }, MUTE, { category: '', scope: '' }]) {
      const reply = await house.call(eve, 'PUT', '/api/notifications/mutes', body);
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
    assert.equal((await house.call(fay, 'DELETE', '/api/notifications/mutes', MUTE)).status, 200);
    assert.equal((await mutes(eve)).length, 3);
    for (let again = 0; again < 2; again++) {
      const reply = await house.call(eve, 'DELETE', '/api/notifications/mutes', MUTE);
      assert.deepEqual([reply.status, reply.json], [200, { status: 'ok' }]);
    }
    assert.deepEqual(
      (await mutes(eve)).map(({ category }) => category),
      ['storage', ''],
    );
  });

  test('bodies of mutes are checked, and their number is bounded', async () => {
    const gus = await house.person('gus');
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
        const reply = await house.call(gus, method, '/api/notifications/mutes', body);
        assert.equal(reply.status, 400, JSON.stringify(body));
      }
      const raw = await request(method, `${house.url}/api/notifications/mutes`, { token: gus.token, raw: '{' });
      assert.deepEqual([raw.status, raw.json.code], [400, 'invalid_json']);
    }
    await house.outside.run(
      `insert into notification_mutes (user_id, category, scope) select $1, 'storage', n::text from generate_series(1, 999) as n`,
      [gus.id],
    );
    const both = await Promise.all(
      ['x', 'y'].map((scope) => house.call(gus, 'PUT', '/api/notifications/mutes', { category: 'storage', scope })),
    );
    assert.deepEqual(both.map(({ status }) => status).sort(), [200, 403]);
    assert.equal(
      (await house.call(gus, 'PUT', '/api/notifications/mutes', { category: 'storage', scope: '7' })).status,
      200,
    );
  });

  test('what is muted is dropped, also while its user is connected, and nothing else is', async (t) => {
    const [hal, ida] = [await house.person('hal'), await house.person('ida')];
    for (const body of [MUTE, { category: 'storage', scope: 'photos' }])
      await house.call(hal, 'PUT', '/api/notifications/mutes', body);
    const socket = await house.socket(t, hal);
    const told: [string, string, string][] = [
      ['compute', '', 'muted'],
      ['compute', 'anything', 'muted with its category'],
      ['storage', 'photos', 'muted'],
      ['storage', 'photos2', 'another scope'],
      ['storage', '', 'no scope'],
      ['auth', '', 'another category'],
      ['', '', 'no category'],
    ];
    const before = house.numbers.muted;
    for (const [category, scope, title] of told) await house.publish(hal, { category, scope, title });
    await house.publish(ida);
    await until(async () => (await house.list(hal)).length === 4 && (await house.list(ida)).length === 1);
    assert.deepEqual(
      (await house.list(hal)).map(({ title }) => title),
      ['no category', 'another category', 'no scope', 'another scope'],
    );
    assert.equal(house.numbers.muted - before, 3);
    for (const title of ['another scope', 'no scope', 'another category', 'no category'])
      assert.equal(z.object({ title: z.string() }).parse(await socket.json()).title, title);
    await house.call(hal, 'DELETE', '/api/notifications/mutes', MUTE);
    await house.publish(hal, { title: 'heard again' });
    assert.equal(z.object({ title: z.string() }).parse(await socket.json()).title, 'heard again');
    assert.equal(socket.queued(), 0);
  });

  test('unread counts are right while notifications come and are read at once', async () => {
    const jan = await house.person('jan');
    const reads = async () => {
      for (const { id } of await house.list(jan, '?limit=7'))
        await house.call(jan, 'POST', `/api/notifications/${id}/read`);
    };
    const publishing = Promise.all(titles(1, 150).map((title) => house.publish(jan, { title })));
    for (let round = 0; round < 6; round++) await reads();
    await house.call(jan, 'POST', '/api/notifications/read-all');
    await publishing;
    const total = async () =>
      (await house.list(jan, '?limit=100')).length + (await house.list(jan, '?limit=100&offset=100')).length;
    await until(async () => (await total()) === 150);
    const all = [...(await house.list(jan, '?limit=100')), ...(await house.list(jan, '?limit=100&offset=100'))];
    assert.deepEqual(await count(jan), { count: all.filter(({ read }) => !read).length });
  });

  test('the database away is 503, and over as soon as it is back', async () => {
    const kay = await house.person('kay');
    assert.equal((await house.get(kay, '/api/notifications')).status, 200);
    const { StorageError } = await import('../../storage/db.ts');
    house.db.failure = new StorageError('unavailable', 'gone');
    const away = await house.get(kay, '/api/notifications');
    assert.deepEqual([away.status, away.json.code], [503, 'unavailable']);
    assert.ok(Number(away.headers.get('retry-after')) > 0);
    assert.equal((await house.service.health()).ok, false);
    house.db.failure = undefined;
    assert.equal((await house.get(kay, '/api/notifications')).status, 200);
    assert.equal((await house.service.health()).ok, true);
  });

  test('other methods and paths are refused', async () => {
    const leo = await house.person('leo');
    assert.equal((await house.call(leo, 'POST', '/api/notifications')).status, 405);
    assert.equal((await house.call(leo, 'POST', '/api/notifications/unread-count')).status, 405);
    assert.equal((await house.get(leo, '/api/notifications/1')).status, 404);
    assert.equal((await house.get(leo, '/ws/notifications')).status, 426);
  });
});
