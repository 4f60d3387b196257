import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AskDeduplicator } from '../../supervision/placement/ask-deduplicator.ts';

const answer = (text: string) => Promise.resolve(new TextEncoder().encode(text));
const settled = () => new Promise((resolve) => setImmediate(resolve));

test('an ask is known from when it came, and its answer stays the same', async () => {
  const answered = new AskDeduplicator(() => 0);
  const first = answer('one');
  answered.add('a/1', first, () => true);
  assert.equal(answered.get('a/1'), first);
  await settled();
  assert.equal(answered.get('a/1'), first);
  assert.equal(answered.get('a/2'), undefined);
});

test('an ask without effect is forgotten', async () => {
  const answered = new AskDeduplicator(() => 0);
  answered.add('a/1', answer('moved'), () => false);
  await settled();
  assert.equal(answered.get('a/1'), undefined);
  assert.equal(answered.mayHaveForgotten(100_000), false);
});

test('what is remembered is bounded in number, bytes and age, and what may be forgotten is known', async () => {
  let now = 100_000;
  const answered = new AskDeduplicator(() => now, { items: 2, bytes: 10, ageMs: 60_000 });
  assert.equal(answered.mayHaveForgotten(50_000), false, 'nothing was forgotten yet');
  for (const key of ['a', 'b', 'c']) {
    answered.add(key, answer('x'), () => true);
    now += 30_000;
  }
  await settled();
  assert.deepEqual([answered.get('a') === undefined, answered.size], [true, 2]);
  // `a` came 90 s ago: what was first sent then may have been it, what was sent 60 s ago cannot.
  assert.equal(answered.mayHaveForgotten(90_000), true);
  assert.equal(answered.mayHaveForgotten(60_000), false);
  answered.add('d', answer('0123456789'), () => true);
  await settled();
  assert.deepEqual([answered.get('c'), answered.size], [undefined, 1]);
  now += 70_000;
  answered.add('e', answer('x'), () => true);
  await settled();
  assert.equal(answered.get('d'), undefined);
});

test('thousands without effect push nothing out, and the oldest of the others goes first', async () => {
  const answered = new AskDeduplicator(() => 0, { items: 3 });
  answered.add('a', answer('x'), () => true);
  for (let n = 0; n < 3000; n++) {
    answered.add(`moved/${n}`, answer('moved'), () => false);
    await settled();
    if (n === 1500) answered.add('b', answer('x'), () => true);
  }
  await settled();
  assert.deepEqual([answered.size, answered.get('a') !== undefined, answered.get('b') !== undefined], [2, true, true]);
  for (const key of ['c', 'd']) answered.add(key, answer('x'), () => true);
  await settled();
  assert.deepEqual([answered.get('a'), answered.size], [undefined, 3]);
  answered.add('e', answer('x'), () => true);
  assert.deepEqual([answered.get('b'), answered.get('c') !== undefined], [undefined, true]);
});
