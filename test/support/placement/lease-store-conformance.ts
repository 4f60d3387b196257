/** What every lease store does: run on the one in the database and on the one in memory. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { LeaseStore, NodeInfo, ShardLease } from '../../../proto/ports/placement.ts';
import { PlacementError } from '../../../proto/ports/placement.ts';
import { until } from '../until.ts';

/** A store, and what a fenced write through it does: resolves, or rejects with PlacementError `fenced`. */
export interface StoreUnderTest {
  readonly store: LeaseStore;
  write(lease: ShardLease): Promise<void>;
}

export const nobody = { stamp: '', mark: '' };
const LONG = 60_000;
const COUNT = 8;
/** More than a store lets go of in one statement. */
const MANY = 6000;

export function nodeNamed(id: string, more: Partial<NodeInfo> = {}): NodeInfo {
  return { id, roles: ['bank'], version: '1', address: `${id}:1`, draining: false, weight: 1, ...more };
}

export function shardsOf(...shards: number[]): { service: string; shard: number }[] {
  return shards.map((shard) => ({ service: 'bank', shard }));
}

export function leaseStoreSuite(name: string, make: (t: TestContext) => Promise<StoreUnderTest>): void {
  test(`${name}: a free shard goes to one node, and to another one only when it is released`, async (t) => {
    const { store, write } = await make(t);
    await store.beat(nodeNamed('a'), LONG, nobody);
    await store.beat(nodeNamed('b'), LONG, nobody);
    const [lease] = await store.take('a', shardsOf(3), COUNT);
    assert.ok(lease);
    assert.deepEqual(lease, { service: 'bank', shard: 3, epoch: 1 });
    assert.deepEqual(await store.take('b', shardsOf(3), COUNT), []);
    await write(lease);
    assert.deepEqual(await store.release('b', [lease]), [], 'who does not hold it has nothing to release');
    await write(lease);
    assert.deepEqual(await store.release('a', [lease]), []);
    await assert.rejects(write(lease), fenced);
    const [next] = await store.take('b', shardsOf(3), COUNT);
    assert.ok(next !== undefined && next.epoch > lease.epoch);
    await store.release('a', [lease]);
    await write(next);
    await assert.rejects(write(lease), fenced);
  });

  test(`${name}: a shard whose owner's lease is over goes to whoever asks, and its former owner cannot write`, async (t) => {
    const { store, write } = await make(t);
    await store.beat(nodeNamed('a'), 150, nobody);
    await store.beat(nodeNamed('b'), LONG, nobody);
    const [old] = await store.take('a', shardsOf(0), COUNT);
    assert.ok(old);
    const taken = await until(async () => (await store.take('b', shardsOf(0), COUNT))[0]);
    assert.ok(taken.epoch > old.epoch);
    await assert.rejects(write(old), fenced);
    // It wakes up: nothing of what it had is its own.
    await store.beat(nodeNamed('a'), LONG, nobody);
    assert.deepEqual(await store.take('a', shardsOf(0), COUNT), []);
    await write(taken);
  });

  test(`${name}: a node takes its own shard again under a new epoch`, async (t) => {
    const { store, write } = await make(t);
    await store.beat(nodeNamed('a'), LONG, nobody);
    const [first] = await store.take('a', shardsOf(5), COUNT);
    const [second] = await store.take('a', shardsOf(5), COUNT);
    assert.ok(first && second && second.epoch > first.epoch);
    await assert.rejects(write(first), fenced);
    await write(second);
  });

  test(`${name}: a node without a lease takes nothing`, async (t) => {
    const { store } = await make(t);
    assert.deepEqual(await store.take('a', shardsOf(1), COUNT), []);
    await store.beat(nodeNamed('a'), 50, nobody);
    await until(async () => {
      const { nodes } = await store.beat(nodeNamed('b'), LONG, nobody);
      return nodes?.length === 0;
    });
    assert.deepEqual(await store.take('a', shardsOf(1), COUNT), []);
  });

  test(`${name}: a beat tells of the others once, and again when they come, drain or go`, async (t) => {
    const { store } = await make(t);
    let view = await store.beat(nodeNamed('a'), LONG, nobody);
    assert.deepEqual(view.nodes, []);
    view = await store.beat(nodeNamed('a'), LONG, view);
    assert.equal(view.nodes, undefined);
    await store.beat(nodeNamed('b'), LONG, nobody);
    view = await store.beat(nodeNamed('a'), LONG, view);
    assert.deepEqual(view.nodes, [nodeNamed('b')]);
    view = await store.beat(nodeNamed('a'), LONG, view);
    assert.equal(view.nodes, undefined);
    await store.beat(nodeNamed('b', { draining: true }), LONG, nobody);
    view = await store.beat(nodeNamed('a'), LONG, view);
    assert.deepEqual(view.nodes, [nodeNamed('b', { draining: true })]);
    await store.leave('b');
    view = await store.beat(nodeNamed('a'), LONG, view);
    assert.deepEqual(view.nodes, []);
  });

  test(`${name}: a beat tells of a node's weight, and again when it has another`, async (t) => {
    const { store } = await make(t);
    let view = await store.beat(nodeNamed('a'), LONG, nobody);
    for (const weight of [2.5, 1]) {
      await store.beat(nodeNamed('b', { weight }), LONG, nobody);
      view = await store.beat(nodeNamed('a'), LONG, view);
      assert.deepEqual(view.nodes, [nodeNamed('b', { weight })]);
      await store.leave('b');
      view = await store.beat(nodeNamed('a'), LONG, view);
    }
  });

  test(`${name}: thousands of shards are taken, released and left as few are`, async (t) => {
    const { store, write } = await make(t);
    await store.beat(nodeNamed('a'), LONG, nobody);
    await store.beat(nodeNamed('b'), LONG, nobody);
    const all = shardsOf(...Array(MANY).keys());
    const leases = await store.take('a', all, MANY);
    assert.equal(leases.length, MANY);
    const [first, last] = [leases.slice(0, MANY / 2), leases.slice(MANY / 2)];
    assert.deepEqual(await store.release('a', first), []);
    for (const lease of last) assert.equal(lease.epoch, 1);
    const [given, kept] = [first[0], last[0]];
    assert.ok(given !== undefined && kept !== undefined);
    await assert.rejects(write(given), fenced);
    await write(kept);
    assert.equal((await store.take('b', all, MANY)).length, MANY / 2);
    await store.leave('a');
    await assert.rejects(write(kept), fenced);
    assert.equal((await store.take('b', all, MANY)).length, MANY);
  });

  test(`${name}: a beat tells of every shard that changed since the last one`, async (t) => {
    const { store } = await make(t);
    let view = await store.beat(nodeNamed('a'), LONG, nobody);
    await store.beat(nodeNamed('b'), LONG, nobody);
    const leases = await store.take('b', shardsOf(1, 2, 4), COUNT);
    view = await store.beat(nodeNamed('a'), LONG, view);
    assert.deepEqual(
      view.shards.map(({ shard, owner, epoch }) => [shard, owner, epoch]).sort(),
      [1, 2, 4].map((shard) => [shard, 'b', 1]),
    );
    await store.release('b', leases.slice(0, 1));
    view = await store.beat(nodeNamed('a'), LONG, view);
    assert.deepEqual(
      view.shards.filter(({ shard }) => shard === 1),
      [{ service: 'bank', shard: 1, owner: undefined, epoch: 2 }],
    );
    await store.leave('b');
    view = await store.beat(nodeNamed('a'), LONG, view);
    const freed = view.shards.filter(({ owner }) => owner === undefined).map(({ shard }) => shard);
    assert.ok(freed.includes(2) && freed.includes(4));
  });

  test(`${name}: after leave, everything a node held is free`, async (t) => {
    const { store, write } = await make(t);
    await store.beat(nodeNamed('a'), LONG, nobody);
    await store.beat(nodeNamed('b'), LONG, nobody);
    const leases = await store.take('a', shardsOf(0, 1), COUNT);
    await store.leave('a');
    for (const lease of leases) await assert.rejects(write(lease), fenced);
    assert.equal((await store.take('b', shardsOf(0, 1), COUNT)).length, 2);
    assert.deepEqual(await store.take('a', shardsOf(0, 1), COUNT), []);
  });

  test(`${name}: nodes that cut the services otherwise are refused`, async (t) => {
    const { store } = await make(t);
    await store.beat(nodeNamed('a'), LONG, nobody);
    await store.beat(nodeNamed('b'), LONG, nobody);
    await store.take('a', shardsOf(0), COUNT);
    await assert.rejects(store.take('b', shardsOf(9), 16), { name: 'PlacementError', code: 'mismatch' });
    // And they left nothing behind that would hinder the others.
    assert.equal((await store.take('a', shardsOf(1), COUNT)).length, 1);
  });
}

export function fenced(error: unknown): boolean {
  assert.ok(error instanceof PlacementError, String(error));
  assert.equal(error.code, 'fenced');
  return true;
}
