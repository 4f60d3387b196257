import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { assign, shardOf, weightOf } from '../../supervision/placement/shards.ts';

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

test('a shard belongs to the node with the highest weight, whatever the order of the nodes', () => {
  fc.assert(
    fc.property(names, fc.string(), (nodes, service) => {
      const owners = assign(service, 32, nodes);
      assert.deepEqual(assign(service, 32, [...nodes].reverse()), owners);
      for (const [shard, owner] of owners.entries()) {
        assert.ok(owner !== undefined);
        for (const node of nodes) assert.ok(weightOf(service, shard, node) <= weightOf(service, shard, owner));
      }
    }),
  );
});

test('a node that comes takes shards from others and moves none between them; when it goes it is as before', () => {
  fc.assert(
    fc.property(names, fc.string({ minLength: 13 }), (nodes, newcomer) => {
      const before = assign('auth', 64, nodes);
      const after = assign('auth', 64, [...nodes, newcomer]);
      for (const [shard, owner] of after.entries()) if (owner !== newcomer) assert.equal(owner, before[shard]);
    }),
  );
});

test('without nodes nobody holds anything', () => {
  assert.deepEqual(assign('auth', 2, []), [undefined, undefined]);
});
