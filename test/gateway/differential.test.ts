/** No origin ever sees a request that the gateway did not, nor another one than it passed on (real servers). */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { differential } from '../support/gateway/differential.ts';
import { ORIGINS } from '../support/gateway/origins.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { skipWithout } from '../support/require.ts';

failOnLeaks();

describe('ambiguous requests', { concurrency: 2 }, () => {
  for (const [name, programs] of Object.entries(ORIGINS)) {
    test(`reach ${name} as what they are, or not at all`, {
      skip: skipWithout(...programs),
      timeout: 900_000,
    }, async (t) => {
      const report = await differential(t, name);
      assert.deepEqual(report.problems.slice(0, 20), []);
      assert.ok(report.sent >= 400 && report.taken >= 200, JSON.stringify(report));
      t.diagnostic(JSON.stringify(report));
    });
  }
});
