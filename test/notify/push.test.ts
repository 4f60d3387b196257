import assert from 'node:assert/strict';
import { test } from 'node:test';
import { failOnLeaks } from '../support/leaks.ts';
import { nextOf, openNotify } from '../support/service/notify.ts';
import { until } from '../support/until.ts';

failOnLeaks();

test('what is published is a row, is pushed to every socket of its user, and to nobody else', async (t) => {
  const notify = await openNotify(t);
  const [ann, bob] = [await notify.person('ann'), await notify.person('bob')];
  const [one, two, other] = [await notify.socket(t, ann), await notify.socket(t, ann), await notify.socket(t, bob)];
  await notify.publish(ann, { category: 'storage', scope: 'photos', link: '/storage/photos', title: 'File uploaded' });
  const pushed = await nextOf(one);
  assert.deepEqual(await nextOf(two), pushed);
  assert.deepEqual(await notify.list(ann), [pushed]);
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
  assert.deepEqual(await notify.list(bob), []);
  await notify.publish(bob);
  assert.equal((await nextOf(other)).user_id, bob.id);
  assert.equal(one.queued() + two.queued(), 0);
  await until(() => notify.numbers.stored === 2);
});

test('a socket with since gets what was missed, then what comes, each once and in order', async (t) => {
  const notify = await openNotify(t);
  const ann = await notify.person('ann');
  await notify.stored(ann, ['1', '2', '3']);
  const [third, second, first] = await notify.list(ann);
  assert.ok(first && second && third);
  const socket = await notify.socket(t, ann, `?since=${first.id}`);
  await notify.publish(ann, { title: '4' });
  assert.deepEqual(await nextOf(socket), second);
  assert.deepEqual(await nextOf(socket), third);
  assert.equal((await nextOf(socket)).title, '4');
});
