/** Buckets that several clients share: how much each gets, and all together. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { type ChangePace, FairBuckets } from '../../proto/fair-buckets.ts';

const PACE: ChangePace = { burst: 600, perSecond: 10 };

function opened(pace = PACE) {
  let now = 1_000_000;
  const buckets = new FairBuckets(pace, { now: () => now });
  return {
    buckets,
    advance: (ms: number) => {
      now += ms;
    },
    take: (client: string) => buckets.take('ann', client),
    /** How many a client gets that asks until it is refused. */
    all: (client: string) => {
      for (let count = 0; ; count++) if (buckets.take('ann', client).waitMs > 0) return count;
    },
  };
}

test('a client that is alone gets the burst at once, and then as many as are refilled', () => {
  const { advance, take, all } = opened();
  assert.equal(all('a'), 600);
  assert.equal(take('a').waitMs, 100);
  advance(100);
  assert.equal(all('a'), 1);
  advance(30_000);
  assert.equal(all('a'), 300);
  // A clock that is set back gives nothing away.
  advance(-60_000);
  assert.equal(all('a'), 0);
  advance(3_600_000);
  assert.equal(all('a'), 600);
});

test('who comes while others want all there is gets a share at once, and an equal part of the refill', () => {
  const { advance, take, all } = opened();
  const greedy = ['a', 'b', 'c', 'd', 'e'];
  const greed = () => greedy.map(all);
  greed();
  // Also of what the first of them left.
  assert.ok(all('early') > 15);
  for (let second = 0; second < 1800; second++) {
    advance(1000);
    greed();
  }
  assert.ok(all('late') > 95);
  // From now on a modest one wants one in two seconds, less than its part.
  const got = new Map<string, number>();
  const add = (client: string, count: number) => got.set(client, (got.get(client) ?? 0) + count);
  for (let second = 0; second < 600; second++) {
    advance(1000);
    for (const client of [...greedy, 'late']) add(client, all(client));
    if (second % 2 === 0) assert.equal(take('modest').waitMs, 0, `second ${second}`);
  }
  const counts = [...got.values()];
  assert.ok(Math.min(...counts) > 0.9 * Math.max(...counts), `${counts}`);
  assert.ok(counts.reduce((sum, count) => sum + count, 0) > 5000);
});

test('however many there are and whatever they give back, all together get twice the burst, and the refill', () => {
  const step = fc.record({ client: fc.nat(400), ms: fc.nat(3000), giveBack: fc.boolean() });
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 20 }), fc.array(step, { maxLength: 400 }), (burst, steps) => {
      const { buckets, advance } = opened({ burst, perSecond: 2 });
      let kept = 0;
      let passed = 0;
      for (const { client, ms, giveBack } of steps) {
        const taken = buckets.take('ann', String(client));
        advance(ms);
        passed += ms;
        if (taken.waitMs > 0) continue;
        if (giveBack) taken.giveBack();
        else kept++;
        assert.ok(kept <= 2 * burst + (2 * passed) / 1000 + 1, `${kept} of ${burst} in ${passed} ms`);
      }
    }),
  );
});

test('what is given back can be taken again, once, but for what was refilled meanwhile', () => {
  const { advance, take, all } = opened({ burst: 10, perSecond: 1 });
  const taken = Array.from({ length: 10 }, () => take('a'));
  assert.equal(all('a'), 0);
  for (const one of taken.slice(0, 4)) {
    one.giveBack();
    one.giveBack();
  }
  assert.equal(all('a'), 4);
  advance(60_000);
  assert.equal(all('a'), 10);
  // These were refilled long ago.
  for (const one of taken) one.giveBack();
  assert.equal(all('a'), 0);
});

test('what is remembered is bounded', () => {
  const { buckets } = opened({ burst: 1, perSecond: 1 });
  for (let i = 0; i < 25_000; i++) assert.equal(buckets.take(`u${i}`, 'a').waitMs, 0);
  assert.equal(buckets.size, 10_000);
  assert.equal(buckets.take('u24999', 'a').waitMs, 1000);
});
