/** A whole platform of processes gets a new version: whoever uses it, through the gateways, notices nothing that they must not. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { runRolling } from '../support/cluster/rolling/rolling.ts';
import { skipWithoutServices } from '../support/cluster/services.ts';

test('one of two machines with a process of each service restarts under load: no request fails, and sockets and terminals that come back have missed nothing', {
  skip: skipWithoutServices(),
}, async (t) => {
  const { problems, requests, restarts, notifications, lines, statuses, terminals, logs } = await runRolling(t, {
    ...{ each: 2, restarted: 1, people: 2, isByMachine: true },
  });
  assert.deepEqual(problems, [], logs.join('\n'));
  assert.equal(restarts, 5);
  const used = [...requests.answered.keys()].sort();
  assert.deepEqual(used, [
    ...['api/domain-mappings', 'api/metrics', 'api/notifications', 'api/session', 'api/settings'],
    ...['compute/containers', 'compute/ssh-keys', 'pod-metrics'],
  ]);
  const seen = { notifications, lines, statuses, ...terminals };
  assert.ok(
    Object.values(seen).every((n) => n > 0),
    JSON.stringify(seen),
  );
});
