import assert from 'node:assert/strict';
import { test } from 'node:test';
import { failOnLeaks } from '../support/leaks.ts';
import { nextOf, openHouse } from '../support/service/notify.ts';
import { until } from '../support/until.ts';

failOnLeaks();

test('what is published is a row, is pushed to every socket of its user, and to nobody else', async (t) => {
  const house = await openHouse(t);
  const [ann, bob] = [await house.person('ann'), await house.person('bob')];
  const [one, two, other] = [await house.socket(t, ann), await house.socket(t, ann), await house.socket(t, bob)];
  await house.publish(ann, { category: 'storage', scope: 'photos', link: '/storage/photos', title: 'File uploaded' });
  const pushed = await nextOf(one);
  assert.deepEqual(await nextOf(two), pushed);
  assert.deepEqual(await house.list(ann), [pushed]);
  const { id, created_at, ...rest } = pushed;
  assert.deepEqual(rest, {
    user_id: ann.id,
    title: 'File uploaded',
    message: '"web" is running.',
    link: '/storage/photos',
    category: 'storage',
    scope: 'photos',
    read: false,
  });
  assert.ok(id > 0 && Math.abs(Date.parse(created_at) - Date.now()) < 60_000);
  assert.deepEqual(await house.list(bob), []);
  await house.publish(bob);
  assert.equal((await nextOf(other)).user_id, bob.id);
  assert.equal(one.queued() + two.queued(), 0);
  await until(() => house.numbers.stored === 2);
});

test('a socket with since gets what was missed, then what comes, each once and in order', async (t) => {
  const house = await openHouse(t);
  const ann = await house.person('ann');
  await house.stored(ann, ['1', '2', '3']);
  const [third, second, first] = await house.list(ann);
  assert.ok(first && second && third);
  const socket = await house.socket(t, ann, `?since=${first.id}`);
  await house.publish(ann, { title: '4' });
  assert.deepEqual(await nextOf(socket), second);
  assert.deepEqual(await nextOf(socket), third);
  assert.equal((await nextOf(socket)).title, '4');
});
