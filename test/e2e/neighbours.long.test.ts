/** A tenant and a stranger take all they can get of a running platform: others are served all the same. Figures are the soak's. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { skipWithoutDocker } from '../support/engine/docker-client.ts';
import { attackers, measure } from '../support/noisy-neighbours/neighbours.ts';
import { neighbourhood } from '../support/noisy-neighbours/platform.ts';
import { type Cleanup, tempDir } from '../support/temp.ts';
import { until } from '../support/until.ts';

test('two bad neighbours with two addresses each keep nobody out', {
  skip: skipWithoutDocker(),
  timeout: 900_000,
}, async (t) => {
  const ends: (() => Promise<void> | void)[] = [];
  const cleanup: Cleanup = { after: (end) => void ends.unshift(end) };
  t.after(async () => {
    for (const end of ends) await end();
  });
  const { attack, third } = await neighbourhood(cleanup, await tempDir(cleanup));
  const bad = attackers(cleanup, attack);
  // The tenant has no more streams than a user may have; idle bodies come and go.
  await until(() => bad.held().bodies > 200 && bad.held().halves > 100 && bad.held().upgrades >= 20, {
    ...{ what: 'they have what they can get', timeoutMs: 60_000 },
  });
  const { login, page, echo } = await measure(third, 8);
  for (const [what, { count, failed, refused }] of Object.entries({ login, page, echo })) {
    assert.ok(count > failed, `${what}: some are served`);
    assert.equal(refused, 0, what);
  }
  // For a moment they also hold what is about to be closed.
  await until(() => bad.held().upgrades <= 20 && bad.held().logs <= 50, { what: 'the tenant has its limits' });
});
