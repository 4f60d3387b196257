/** Nodes that an operator asks to give their entities away, and work that one node does at a time. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startSingleton } from '../../actors/service/placement.ts';
import { askDrain, listNodes } from '../../storage/placement/nodes.ts';
import { type Ref, stop, stopped } from '../../supervision/index.ts';
import { silentLog } from '../support/log.ts';
import { CALM_MS, type Member, openAccountNodes, SHARDS } from '../support/placement/account-nodes.ts';
import type { AccountMessage } from '../support/placement/account-service.ts';
import { until } from '../support/until.ts';

const holding = ({ cluster }: Member) => cluster.node.holding;

const balance = ({ accounts }: Member, id: string) =>
  accounts.ask(id, (replyTo: Ref<number>): AccountMessage => ({ type: 'balance', replyTo }), 15_000);

test('a node that is asked to drain gives everything away and goes on asking, until that is taken back', async (t) => {
  const place = await openAccountNodes(t, { ttlMs: CALM_MS });
  const [a, b] = [await place.add('a'), await place.add('b')];
  await place.settled(a, b);
  const states = async () => (await listNodes(place.db)).map(({ id, draining }) => [id, draining]);

  assert.equal(await askDrain(place.db, 'a', true), true);
  assert.deepEqual(await states(), [
    ['a', true],
    ['b', false],
  ]);
  await until(() => holding(a) === 0 && holding(b) === SHARDS, { what: 'B holds all' });
  for (let n = 1; n <= 20; n++) assert.equal(await balance(a, `acc${n}`), 0);
  // Asked again, and with one more node, it stays so.
  assert.equal(await askDrain(place.db, 'a', true), true);
  const c = await place.add('c');
  await until(() => holding(c) > 0 && holding(b) + holding(c) === SHARDS, { what: 'B and C share' });
  assert.equal(holding(a), 0);

  assert.equal(await askDrain(place.db, 'a', false), true);
  await until(() => holding(a) > 0, { what: 'A takes some again' });
  await place.settled(a, b, c);
  assert.equal(await askDrain(place.db, 'nobody', true), false);
});

test('work of which there is one goes to the next node when its node drains, and when it dies', async (t) => {
  const place = await openAccountNodes(t);
  const members = [await place.add('a'), await place.add('b'), await place.add('c')];
  await place.settled(...members);
  /** Who works, and how many did at most. */
  const working = new Set<string>();
  let most = 0;
  let fails = 0;
  for (const { id, cluster, system } of members) {
    startSingleton(system, {
      ...{ service: 'bank', name: 'audit', placement: cluster, log: silentLog },
      work: async (signal) => {
        working.add(id);
        most = Math.max(most, working.size);
        if (fails-- > 0) {
          working.delete(id);
          throw new Error('the ledger is locked');
        }
        await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
        working.delete(id);
      },
    });
  }
  const worker = () => members.find(({ id }) => working.has(id));
  const first = await until(worker, { what: 'one works' });
  await askDrain(place.db, first.id, true);
  const second = await until(() => (worker() === first ? undefined : worker()), { what: 'another works' });
  assert.equal(most, 1);

  // It dies, and what the next one does fails once.
  fails = 1;
  second.cluster.node.halt();
  stop(second.system);
  await stopped(second.system);
  const third = await until(() => worker(), { what: 'the next one works', timeoutMs: 60_000 });
  assert.ok(third !== first && third !== second);
  assert.equal(most, 1);
  await third.leave();
  await until(() => working.size === 0, { what: 'it lets go' });
});
