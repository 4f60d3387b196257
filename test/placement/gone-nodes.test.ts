/** How the nodes of a cluster hear that one of them is gone. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { NodeInfo } from '../../proto/ports/placement.ts';
import { CROWD, GoneNodes } from '../../supervision/placement/gone-nodes.ts';
import { ClusterView } from '../../supervision/placement/view.ts';
import { packGone } from '../../supervision/placement/wire.ts';
import { type Member, openAccountNodes, SHARDS } from '../support/placement/account-nodes.ts';
import { until } from '../support/until.ts';

const NO_SHARDS = { stamp: '', mark: '', drainAsked: false, shards: [] };

function node(id: string): NodeInfo {
  return { id, roles: ['bank'], version: 'test', address: id, draining: false, weight: 1 };
}

/** The view of `self` among so many others, `n0`, `n1` and so on, with what it tells them. */
function among(count: number) {
  const view = new ClusterView(node('self'), SHARDS);
  const others = Array.from({ length: count }, (_, n) => node(`n${n}`));
  view.update({ ...NO_SHARDS, nodes: others }, ['bank']);
  const told: string[] = [];
  const news = new GoneNodes(view, (id) => told.push(id));
  const lose = (...ids: string[]) =>
    news.onView(view.update({ ...NO_SHARDS, nodes: others.filter(({ id }) => !ids.includes(id)) }, ['bank']));
  return { view, told, news, lose };
}

test('when a node dies, the first to see it makes the others look: nobody waits for a beat of its own', async (t) => {
  // None of them beats by itself while the test runs.
  const { db, add } = await openAccountNodes(t, { beatMs: 250_000, ttlMs: 590_000 });
  const nodes: Member[] = [];
  for (const id of ['a', 'b', 'c', 'd']) nodes.push(await add(id));
  await until(async () => {
    for (const { cluster } of nodes) await cluster.node.beat();
    return nodes.every(({ cluster }) => cluster.node.view.nodes.size === 3 && cluster.node.holding < SHARDS / 2);
  });
  await until(() => nodes.reduce((sum, { cluster }) => sum + cluster.node.holding, 0) === SHARDS);
  const [victim, witness, ...others] = nodes;
  assert.ok(victim && witness);
  assert.ok(victim.cluster.node.holding > 0);
  victim.faults.offBus = true;
  await victim.cluster.halt();
  await db.run(`update placement_nodes set expires_at = now() - interval '1 second' where id = 'a'`);
  await witness.cluster.node.beat();
  const left = [witness, ...others];
  await until(() => left.reduce((sum, { cluster }) => sum + cluster.node.holding, 0) === SHARDS, {
    what: 'the others hold what it held',
  });
  assert.ok(left.every(({ cluster }) => !cluster.node.view.lives('a')));
});

test('all are told where they are few; of many, those who should hold what the node held', () => {
  const few = among(3);
  few.lose('n1');
  assert.deepEqual(few.told, ['n0', 'n2']);

  const many = among(CROWD + 2);
  for (const shard of [3, 4]) many.view.note({ service: 'bank', shard, owner: 'n1', epoch: 1 });
  many.view.note({ service: 'bank', shard: 5, owner: 'n2', epoch: 1 });
  many.lose('n1');
  const heirs = [3, 4].map((shard) => many.view.assignment('bank')[shard]).filter((id) => id !== 'self');
  assert.deepEqual(new Set(many.told), new Set(heirs));
  assert.ok(many.told.length <= 2);
});

test('what another told is not told on, and makes nobody look who knows it', () => {
  const { told, news, lose } = among(3);
  assert.equal(news.isNews(packGone(['n1'])), true);
  lose('n1');
  assert.deepEqual(told, []);
  assert.equal(news.isNews(packGone(['n1'])), false);
  assert.equal(news.isNews(new Uint8Array()), true, 'a message without a reason is one');
});

test('who finds most of them gone tells nobody', () => {
  const { told, lose } = among(3);
  lose('n0', 'n1');
  assert.deepEqual(told, []);
});

test('news that cannot be read is refused', () => {
  const { news } = among(1);
  for (const text of ['[', '{"v":1}', '{"v":1,"g":[1]}'])
    assert.throws(() => news.isNews(Buffer.from(text)), { code: 'unknown_format' });
});
