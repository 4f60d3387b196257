/** The image of a container is changed while requests come: the short form of `npm run soak -- revisions`. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { tryRevisions } from '../support/cluster/revisions.ts';
import { skipWithoutDocker } from '../support/engine/docker-client.ts';

test('no request fails while the image of a container without mount paths is changed, and no socket of another ends', {
  skip: skipWithoutDocker(),
  timeout: 900_000,
}, async (t) => {
  const trial = { changes: 2, perSecond: 100, hasNeighbour: true };
  const { requests, failures, versions, changesMs, left, neighbourLives } = await tryRevisions(t, trial);
  assert.deepEqual([failures, neighbourLives], [[], true]);
  assert.ok(requests > 100, String(requests));
  assert.deepEqual(versions, ['0', '1']);
  assert.equal(changesMs.length, 2);
  // What ran before is ended, half a minute later.
  assert.equal(left, 1);
});

test('no request of its private network by its alias fails, and a WebSocket is asked to come again', {
  skip: skipWithoutDocker(),
  timeout: 900_000,
}, async (t) => {
  const trial = { changes: 2, perSecond: 30, alias: 'web', hasSocket: true };
  const { failures, left, inside, socket } = await tryRevisions(t, trial);
  assert.deepEqual(socket, { code: 1012, before: '1', after: '0' });
  assert.deepEqual([failures, inside?.failures], [[], []]);
  assert.deepEqual(inside?.versions, ['0', '1']);
  assert.ok((inside?.requests ?? 0) > 50, String(inside?.requests));
  assert.equal(left, 1);
});

test('requests wait while the image of a container with mount paths is changed, and none is sent twice', {
  skip: skipWithoutDocker(),
  timeout: 900_000,
}, async (t) => {
  const outcome = await tryRevisions(t, { changes: 2, perSecond: 30, mountPaths: ['/data'] });
  assert.deepEqual([outcome.failures, outcome.wrongPosts], [[], []]);
  assert.deepEqual(outcome.versions, ['0', '1']);
});
