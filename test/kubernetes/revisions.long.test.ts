/** The image of a container on a cluster is changed while requests come: a short form of `npm run soak -- revisions`. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { tryRevisions } from '../support/cluster/revisions.ts';
import { skipWithoutKubernetes } from '../support/kubernetes/programs.ts';
import { revisionsOnKubernetes } from '../support/kubernetes/revisions.ts';
import { skipWithout } from '../support/require.ts';
import { inReverse } from '../support/suite.ts';

test('no request fails while a pod takes the place of another, neither from outside nor by its alias in its private network', {
  skip: skipWithoutKubernetes() || skipWithout('docker-registry'),
  timeout: 900_000,
}, async (t) => {
  const ends = inReverse(t);
  const world = await revisionsOnKubernetes(ends);
  const outcome = await tryRevisions(ends, { changes: 2, perSecond: 50, alias: 'web', world, leavesOthers: true });
  const { requests, changesMs, inside } = outcome;
  t.diagnostic(`${requests} requests, and ${inside?.requests} by alias; changes, ms: ${changesMs.join(' ')}`);
  assert.deepEqual([outcome.failures, inside?.failures], [[], []]);
  assert.deepEqual(inside?.versions, ['0', '1']);
  assert.ok((inside?.requests ?? 0) > 500, String(inside?.requests));
  assert.ok(outcome.requests > 100, String(outcome.requests));
  assert.deepEqual(outcome.versions, ['0', '1']);
  // What ran before still ends what it had begun.
  assert.equal(outcome.left, 2);
});
