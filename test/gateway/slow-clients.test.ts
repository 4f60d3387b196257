/** Slow clients of slowhttptest in short: the others are served, and memory is bounded. `npm run soak -- slow` is the long form, with times. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type SlowKind, slowClients } from '../support/gateway/slow-clients.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { skipWithout } from '../support/require.ts';

failOnLeaks();

for (const [kind, what] of [
  ['H', 'never end their heads'],
  ['B', 'drip their bodies'],
  ['X', 'hardly read'],
] as const satisfies [SlowKind, string][]) {
  test(`clients that ${what} keep nobody from being served`, {
    skip: skipWithout('slowhttptest'),
    timeout: 60_000,
  }, async (t) => {
    const connections = 300;
    const report = await slowClients(t, kind, { connections, seconds: 5, beforeSeconds: 1 });
    t.diagnostic(JSON.stringify(report));
    assert.ok(report.slow >= connections / 3, `${report.slow} were there at once`);
    assert.deepEqual([report.before.failed, report.during.failed], [0, 0]);
    assert.ok(report.during.requests >= 8, `${report.during.requests} were answered`);
    assert.ok(report.memoryMb.most - report.memoryMb.before < 150, JSON.stringify(report.memoryMb));
  });
}
