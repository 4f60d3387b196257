/** What a node asks of the store when a service is cut into many shards: whatever it holds, as few calls as with few. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Shard, ShardLease } from '../../proto/ports/placement.ts';
import { PlacementNode } from '../../supervision/placement/node.ts';
import { MemoryLeases } from '../../supervision/testing/index.ts';
import { silentLog } from '../support/log.ts';

const SHARDS = 16_384;

/** Counts calls, and what crosses in them. */
class CountingLeases extends MemoryLeases {
  readonly counts = { beats: 0, rows: 0, takes: 0, releases: 0, most: 0 };

  override async beat(...given: Parameters<MemoryLeases['beat']>) {
    const view = await super.beat(...given);
    this.counts.beats++;
    this.counts.rows += view.shards.length + (view.nodes?.length ?? 0);
    return view;
  }

  override take(nodeId: string, shards: readonly Shard[], count: number) {
    this.counts.takes++;
    this.counts.most = Math.max(this.counts.most, shards.length);
    return super.take(nodeId, shards, count);
  }

  override release(nodeId: string, leases: readonly ShardLease[]) {
    this.counts.releases++;
    this.counts.most = Math.max(this.counts.most, leases.length);
    return super.release(nodeId, leases);
  }

  /** What was counted since the last time. */
  counted() {
    const counted = { ...this.counts };
    Object.assign(this.counts, { beats: 0, rows: 0, takes: 0, releases: 0, most: 0 });
    return counted;
  }
}

function cluster(ids: readonly string[]) {
  const store = new CountingLeases();
  const stopped: number[] = [];
  const nodes = ids.map((id) => {
    const hooks = { stopEntities: async (shards: readonly Shard[]) => void stopped.push(shards.length) };
    const self = { id, roles: ['bank'], version: '1', address: id };
    return new PlacementNode({ self, store, log: silentLog, shards: SHARDS, hooks });
  });
  const beats = async (...some: PlacementNode[]) => {
    for (const node of some) {
      await node.beat();
      await new Promise((resolve) => setImmediate(resolve));
    }
  };
  return { store, nodes, beats, stopped };
}

test('a beat without news is one call that brings no row, also with 16,384 shards', async () => {
  const { store, nodes, beats } = cluster(['a', 'b', 'c']);
  while (nodes.reduce((sum, { holding }) => sum + holding, 0) < SHARDS || nodes.some(({ holding }) => holding === 0)) {
    await beats(...nodes);
  }
  await beats(...nodes);
  store.counted();
  await beats(...nodes);
  assert.deepEqual(store.counted(), { beats: 3, rows: 0, takes: 0, releases: 0, most: 0 });
});

test('a node takes 16,384 shards and gives them away in a few calls, none of which is large, and stops entities in eight batches', async () => {
  const { store, nodes, beats, stopped } = cluster(['a', 'b']);
  const [a, b] = nodes;
  assert.ok(a !== undefined && b !== undefined);
  await beats(a);
  assert.equal(a.holding, SHARDS);
  let { takes, releases, most } = store.counted();
  assert.ok(takes <= 8 && most <= 2048, `${takes} calls of ${most} shards at most`);
  await beats(b, a);
  await a.drain();
  assert.equal(a.holding, 0);
  ({ takes, releases, most } = store.counted());
  assert.ok(releases <= 24 && most <= 2048, `${releases} calls of ${most} shards at most`);
  // Some when the other one came, and the rest by the drain.
  assert.ok(stopped.length <= 16, `entities were stopped ${stopped.length} times`);
  await beats(b);
  assert.equal(b.holding, SHARDS);
});
