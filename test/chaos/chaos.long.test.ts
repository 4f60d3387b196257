/** The short form of the chaos test; `npm run soak -- chaos` is the long one. */
import { existsSync } from 'node:fs';
import { test } from 'node:test';
import { runChaos } from '../support/chaos/chaos.ts';
import { tinyImageMissing } from '../support/engine/tiny-image.ts';
import { skipUnless, skipWithout } from '../support/require.ts';

const skip =
  skipWithout('dockerd', 'iptables') ||
  skipUnless(process.getuid?.() === 0, 'a private dockerd takes root') ||
  skipUnless(tinyImageMissing() === undefined, tinyImageMissing() ?? '') ||
  skipUnless(existsSync('/proc/self/mounts'), 'this is not Linux');

test('whatever clients and operators do, rows, API and Docker agree in the end', {
  skip,
  timeout: 230_000,
}, async (t) => {
  const seed = Number(process.env.CHAOS_SEED ?? Date.now() % 1_000_000);
  t.diagnostic(`seed ${seed} (CHAOS_SEED)`);
  const report = await runChaos({ seed, operations: 40, pauseMs: 1000, kills: 1, meddlings: 6, settleMs: 90_000 });
  t.diagnostic(JSON.stringify(report));
});
