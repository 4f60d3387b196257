/** What every store of timers does: run on the one in the database and on the one in memory. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { type TestContext, test } from 'node:test';
import type { LeaseStore, ShardLease } from '../../../proto/ports/placement.ts';
import type { DueTimer, TimerRow, TimerStore } from '../../../proto/ports/timers.ts';
import { shardOf } from '../../../supervision/placement/index.ts';
import { fenced, nobody, nodeNamed, shardsOf } from './lease-store-conformance.ts';

const COUNT = 8;
const SOON = 1000;
const KIND = 'bank/account';
const ALL = [{ service: 'bank', shards: [0, 1, 2, 3, 4, 5, 6, 7], count: COUNT }];

interface TimersUnderTest {
  readonly leases: LeaseStore;
  readonly timers: TimerStore;
}

const inShard = (shard: number): string =>
  Array.from({ length: 1000 }, (_, n) => `acc${n}`).find((id) => shardOf(KIND, id, COUNT) === shard) ?? '';

/** A timer of the first entity of a shard. */
function timerOf(shard: number, inMs: number, more: Partial<TimerRow> = {}): TimerRow {
  const key = randomUUID();
  const at = Date.now() + inMs;
  return { service: 'bank', kind: KIND, id: inShard(shard), name: 'due', key, at, message: { type: 'due' }, ...more };
}

const keysOf = (timers: readonly DueTimer[]): string[] => timers.map(({ key }) => key);

export function timerStoreSuite(name: string, make: (t: TestContext) => Promise<TimersUnderTest>): void {
  async function leased(t: TestContext) {
    const { leases, timers } = await make(t);
    await leases.beat(nodeNamed('a'), 60_000, nobody);
    const taken = await leases.take('a', shardsOf(0, 1, 2, 3, 4, 5, 6, 7), COUNT);
    const lease = (shard: number): ShardLease => {
      const found = taken.find((one) => one.shard === shard);
      assert.ok(found);
      return found;
    };
    return { leases, timers, lease };
  }

  test(`${name}: a timer is read as it was set, by who holds its shard, once it is due soon`, async (t) => {
    const { timers, lease } = await leased(t);
    const [soon, late, other] = [timerOf(1, 500), timerOf(1, 60_000, { name: 'late' }), timerOf(2, -500)];
    for (const timer of [soon, late]) await timers.set(lease(1), timer);
    await timers.set(lease(2), other);
    const [mine, ...more] = await timers.due([{ service: 'bank', shards: [1], count: COUNT }], SOON, 100);
    assert.ok(mine);
    const { inMs, tries, at, ...rest } = mine;
    const { at: wanted, ...set } = soon;
    assert.deepEqual([rest, tries, more.length], [set, 0, 0]);
    assert.ok(Math.abs(at - wanted) < 1 && inMs <= 500 && inMs > -60_000, `${at - wanted} ms, in ${inMs} ms`);
    assert.deepEqual(await timers.due([{ service: 'shop', shards: [1], count: COUNT }], SOON, 100), []);
    assert.deepEqual(keysOf(await timers.due(ALL, SOON, 100)), [other.key, soon.key]);
    assert.deepEqual(keysOf(await timers.due(ALL, 120_000, 100)), [other.key, soon.key, late.key]);
    assert.deepEqual(keysOf(await timers.due(ALL, 120_000, 1)), [other.key]);
  });

  test(`${name}: a timer of the same name takes the place of the one before, whatever became of that`, async (t) => {
    const { timers, lease } = await leased(t);
    const [first, second] = [timerOf(3, 0), timerOf(3, 100)];
    await timers.set(lease(3), first);
    await timers.postpone(first, 0);
    await timers.set(lease(3), second);
    await timers.end([{ timer: first, lease: lease(3) }]);
    await timers.postpone(first, 60_000);
    const [found, ...more] = await timers.due(ALL, SOON, 100);
    assert.deepEqual([found?.key, found?.tries, more.length], [second.key, 0, 0]);
  });

  test(`${name}: a timer that was cancelled or has ended is read no more`, async (t) => {
    const { timers, lease } = await leased(t);
    const given = [timerOf(4, 0), timerOf(4, 0, { name: 'more' }), timerOf(5, 0)] as const;
    for (const timer of given) await timers.set(lease(shardOf(KIND, timer.id, COUNT)), timer);
    await timers.cancel(lease(4), given[1]);
    await timers.cancel(lease(4), { ...given[1], name: 'unknown' });
    assert.deepEqual(keysOf(await timers.due(ALL, SOON, 100)).sort(), [given[0].key, given[2].key].sort());
    await timers.end([
      { timer: given[0], lease: lease(4) },
      { timer: given[2], lease: lease(5) },
    ]);
    assert.deepEqual(await timers.due(ALL, SOON, 100), []);
  });

  test(`${name}: a timer that was not handled comes later, and says how often it was tried`, async (t) => {
    const { timers, lease } = await leased(t);
    const timer = timerOf(6, 0);
    await timers.set(lease(6), timer);
    await timers.postpone(timer, 60_000);
    assert.deepEqual(await timers.due(ALL, SOON, 100), []);
    const [found] = await timers.due(ALL, 120_000, 100);
    assert.deepEqual([found?.key, found?.tries], [timer.key, 1]);
    assert.ok(found !== undefined && Math.abs(found.at - timer.at) < 1);
  });

  test(`${name}: whose lease is over sets, cancels and ends nothing`, async (t) => {
    const { leases, timers, lease } = await leased(t);
    const timer = timerOf(7, 0);
    await timers.set(lease(7), timer);
    await leases.release('a', [lease(7)]);
    await leases.take('a', shardsOf(7), COUNT);
    await assert.rejects(timers.set(lease(7), timerOf(7, 0)), fenced);
    await assert.rejects(timers.cancel(lease(7), timer), fenced);
    await timers.end([{ timer, lease: lease(7) }]);
    assert.deepEqual(keysOf(await timers.due(ALL, SOON, 100)), [timer.key]);
  });

  test(`${name}: each timer is read by one owner, into however many shards the service is cut`, async (t) => {
    const { timers, lease } = await leased(t);
    const ids = Array.from({ length: 40 }, (_, n) => `acc${n}`);
    for (const id of ids) await timers.set(lease(shardOf(KIND, id, COUNT)), timerOf(0, 0, { id }));
    for (const count of [1, 6, 256, 1000]) {
      const all = Array.from({ length: count }, (_, shard) => shard);
      const halves = [all.filter((shard) => shard % 2 === 0), all.filter((shard) => shard % 2 === 1)];
      const found: string[] = [];
      for (const shards of halves) {
        const due = await timers.due([{ service: 'bank', shards, count }], SOON, 100);
        assert.ok(due.every(({ id }) => shards.includes(shardOf(KIND, id, count))));
        found.push(...due.map(({ id }) => id));
      }
      assert.deepEqual(found.sort(), [...ids].sort(), `${count} shards`);
    }
  });
}
