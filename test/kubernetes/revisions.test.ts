/** The image of a container on a cluster is changed while requests come: a short form of `npm run soak -- revisions`. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { tryRevisions } from '../support/cluster/revisions.ts';
import { skipWithoutKubernetes } from '../support/kubernetes/programs.ts';
import { revisionsOnKubernetes } from '../support/kubernetes/revisions.ts';
import { skipWithout } from '../support/require.ts';
import { inReverse } from '../support/suite.ts';

test('no request fails while a pod takes the place of another, for another image of a container without mount paths', {
  skip: skipWithoutKubernetes() || skipWithout('docker-registry'),
  timeout: 580_000,
}, async (t) => {
  const ends = inReverse(t);
  const world = await revisionsOnKubernetes(ends);
  const outcome = await tryRevisions(ends, { changes: 2, perSecond: 100, world, leavesOthers: true });
  t.diagnostic(`${outcome.requests} requests; changes, ms: ${outcome.changesMs.join(' ')}`);
  assert.deepEqual(outcome.failures, []);
  assert.ok(outcome.requests > 100, String(outcome.requests));
  assert.deepEqual(outcome.versions, ['0', '1']);
  // What ran before still ends what it had begun.
  assert.equal(outcome.left, 2);
});
