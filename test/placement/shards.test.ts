import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { Assignment } from '../../supervision/placement/assignment.ts';
import { nodeSeed, shardOf, shardSeed, suits } from '../../supervision/placement/shards.ts';
import { assigned } from '../support/placement/assigned.ts';

test('an entity stays in its shard from version to version', () => {
  // Whoever changes these numbers moves entities while nodes of the version before hold them.
  assert.deepEqual(
    [
      ['auth/user', 'a1b2c3d4e5f6'],
      ['compute/container', 'a1b2c3d4e5f6'],
      ['network/mapping', 'bücher.example'],
      ['notify/user', ''],
    ].map(([kind = '', id = '']) => [shardOf(kind, id), shardOf(kind, id, 4096)]),
    [
      [243, 4083],
      [193, 3521],
      [195, 1731],
      [194, 1730],
    ],
  );
});

test('entities are spread evenly over the shards', () => {
  const counts = new Array(256).fill(0);
  for (let n = 0; n < 256 * 400; n++) counts[shardOf('compute/container', `c${n.toString(36)}`)]++;
  // Poisson: the standard deviation is 20, and of 256 none is six of them away.
  assert.ok(Math.min(...counts) > 280 && Math.max(...counts) < 520, `${Math.min(...counts)} to ${Math.max(...counts)}`);
});

const names = fc.uniqueArray(fc.string({ minLength: 1, maxLength: 12 }), { minLength: 1, maxLength: 12 });

test('a shard belongs to the node that suits it best, whatever the order of the nodes', () => {
  fc.assert(
    fc.property(names, fc.string(), (nodes, service) => {
      const owners = assigned(service, 32, nodes);
      assert.deepEqual(assigned(service, 32, [...nodes].reverse()), owners);
      for (const [shard, owner] of owners.entries()) {
        assert.ok(owner !== undefined);
        const value = (node: string) => suits(nodeSeed(node), shardSeed(service, shard));
        for (const node of nodes) assert.ok(value(node) <= value(owner));
      }
    }),
  );
});

test('a node that comes takes shards from others and moves none between them; when it goes it is as before', () => {
  fc.assert(
    fc.property(names, fc.string({ minLength: 13 }), (nodes, newcomer) => {
      const before = assigned('auth', 64, nodes);
      const after = assigned('auth', 64, [...nodes, newcomer]);
      for (const [shard, owner] of after.entries()) if (owner !== newcomer) assert.equal(owner, before[shard]);
    }),
  );
});

test('without nodes nobody holds anything', () => {
  assert.deepEqual(assigned('auth', 2, []), [undefined, undefined]);
});

const weights = fc.constantFrom(0.5, 1, 1, 1, 2, 10);
const cluster = fc.uniqueArray(fc.tuple(fc.string({ minLength: 1, maxLength: 4 }), weights), {
  maxLength: 12,
  selector: ([id]) => id,
});

test('whatever nodes came and went before, an assignment is that of the nodes there are', () => {
  fc.assert(
    fc.property(fc.array(cluster, { minLength: 1, maxLength: 8 }), (clusters) => {
      const kept = new Assignment('auth', 64);
      for (const nodes of clusters) {
        kept.update(new Map(nodes));
        assert.deepEqual(kept.owners, assigned('auth', 64, new Map([...nodes].reverse())));
      }
    }),
  );
});

test('nodes hold shards by their weights, and one that comes moves none between the others', () => {
  const nodes = new Map(Array.from({ length: 12 }, (_, n) => [`node-${n}`, n < 4 ? 4 : 1]));
  const before = assigned('auth', 16_384, nodes);
  const held = (id: string) => before.filter((owner) => owner === id).length;
  const total = 4 * 4 + 8;
  for (const [id, weight] of nodes) {
    const due = (16_384 * weight) / total;
    // The standard deviation is the root of what is due, and none of twelve is five of them away.
    assert.ok(Math.abs(held(id) - due) < 5 * Math.sqrt(due), `${id} of weight ${weight} holds ${held(id)}`);
  }
  const after = assigned('auth', 16_384, new Map([...nodes, ['newcomer', 3]]));
  for (const [shard, owner] of after.entries()) if (owner !== 'newcomer') assert.equal(owner, before[shard]);
});

test('equal weights assign as nodes without weights do, whatever the weight is', () => {
  const ids = Array.from({ length: 9 }, (_, n) => `node-${n}`);
  const plain = assigned('auth', 4096, ids);
  assert.deepEqual(assigned('auth', 4096, new Map(ids.map((id) => [id, 7.5]))), plain);
  // A weight that differs by almost nothing moves almost nothing: the score orders as the plain value does.
  const nearly = assigned('auth', 4096, new Map(ids.map((id, n) => [id, 1 + n * 1e-12])));
  assert.deepEqual(nearly, plain);
});
