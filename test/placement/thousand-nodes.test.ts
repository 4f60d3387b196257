/** The short form of `npm run soak -- thousand-nodes`. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { simulateBroker } from '../support/placement/broker-costs.ts';
import { onOwnServer, simulateNodes } from '../support/placement/thousand-nodes.ts';
import { skipWithout } from '../support/require.ts';

test('what a node costs its database at a heartbeat and a look does not grow with the shards of the cluster', async () => {
  const size = { nodes: 20, users: 500, containers: 2000, times: 20 };
  const [few, many] = await onOwnServer(async () => [
    await simulateNodes({ ...size, shards: 64 }),
    await simulateNodes({ ...size, shards: 4096 }),
  ]);
  const costOf = ({ costs }: Awaited<ReturnType<typeof simulateNodes>>, name: string) => {
    const cost = costs.find(({ what }) => what === name);
    assert.ok(cost, name);
    return cost;
  };
  for (const name of ['heartbeat', 'look of a watcher', 'fenced write']) {
    const [small, large] = [costOf(few, name), costOf(many, name)];
    assert.ok(large.answerBytes < small.answerBytes + 500, `${name} brings ${large.answerBytes} bytes`);
  }
  assert.equal(few.lines.length, 4 + few.costs.length);
});

test('an echo and an ask are heard by one node, and an item of news by all, as what nodes cost their broker is measured', {
  skip: skipWithout('nats-server'),
}, async (t) => {
  const { costs, lines } = await simulateBroker(t, { nodes: 20, users: 500, times: 5 });
  assert.deepEqual(
    costs.map(({ hearers }) => hearers),
    [1, 1, 20],
  );
  assert.equal(lines.length, 4 + costs.length);
});
