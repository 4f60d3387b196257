/**
 * Do rows, API and Docker agree after chaos? `npm run soak -- chaos [SEED] [OPERATIONS] [KILLS]`: clients of three users do random things
 * (200 by default) while dockerd is killed (5 times) and containers are changed behind the platform's back.
 */
import { runChaos } from '../support/chaos/chaos.ts';

const [seed = Date.now() % 1_000_000, operations = 200, kills = 5] = process.argv.slice(2).map(Number);

process.stdout.write(`seed ${seed}, ${operations} operations, ${kills} kills of dockerd\n`);
try {
  const report = await runChaos({
    seed,
    operations,
    kills,
    pauseMs: 2000,
    meddlings: Math.round(operations / 5),
    settleMs: 120_000,
    onProgress: (line) => process.stderr.write(`${line}\n`),
  });
  process.stdout.write(`${JSON.stringify(report, null, 2)}\n`);
} catch (error) {
  process.stdout.write(`${error instanceof Error ? error.message : error}\n`);
  process.exitCode = 1;
}
