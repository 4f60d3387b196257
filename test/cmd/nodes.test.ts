import assert from 'node:assert/strict';
import { test } from 'node:test';
import { drawNodes } from '../../cmd/cli/nodes.ts';
import { nodesView } from '../../cmd/node/nodes-view.ts';
import { NODE_FORMAT } from '../../proto/ports/placement.ts';
import type { NodeRow } from '../../storage/placement/nodes.ts';

const node = (more: Partial<NodeRow>): NodeRow => ({
  ...{
    id: 'n1',
    roles: ['auth', 'compute'],
    version: '0.1.0',
    address: 'host:1',
    draining: false,
    format: NODE_FORMAT,
    keyIds: [],
  },
  ...{ startedAt: new Date(0), leaseMs: 5400, shards: { auth: 256, compute: 100 } },
  ...more,
});
const nodes = [
  node({}),
  node({ id: 'n2', roles: ['compute'], draining: true, shards: { compute: 56 } }),
  node({ id: 'n3', roles: ['compute'], leaseMs: -1, shards: { compute: 100 } }),
  node({ id: 'n4', roles: ['compute'], draining: true, shards: {} }),
];
const services = [
  { service: 'auth', count: 256, held: 256 },
  { service: 'compute', count: 256, held: 156 },
];

test('troupe nodes shows a line for each node, and what nobody holds', () => {
  assert.deepEqual(drawNodes({ nodes, services }).split('\n'), [
    'NODE  ADDRESS  VERSION  STATUS    LEASE  SHARDS',
    'n1    host:1   0.1.0    serving   5.4 s  auth 256, compute 100',
    'n2    host:1   0.1.0    draining  5.4 s  compute 56',
    'n3    host:1   0.1.0    gone      -      compute 100',
    'n4    host:1   0.1.0    drained   5.4 s  compute 0',
    'compute: 100 of 256 shards are held by no living node.',
  ]);
  assert.match(drawNodes({ nodes: [], services: [] }), /No node is running/);
});

test('troupe nodes --json says the same for scripts', () => {
  const json = nodesView({ nodes, services });
  assert.deepEqual(
    json.nodes.map(({ id, state, lease_ms }) => [id, state, lease_ms]),
    [
      ['n1', 'serving', 5400],
      ['n2', 'draining', 5400],
      ['n3', 'gone', 0],
      ['n4', 'drained', 5400],
    ],
  );
  assert.deepEqual(json.services[1], { service: 'compute', shards: 256, held: 156 });
  assert.equal(json.nodes[0]?.started_at, '1970-01-01T00:00:00.000Z');
});
