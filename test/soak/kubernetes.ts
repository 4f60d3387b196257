/**
 * Do rows and cluster agree after trouble? `npm run soak -- kubernetes [SEED] [OPERATIONS] [KILLS]`: users do random things with their
 * containers (200 by default) while the API server and etcd of a real cluster are killed and started again (50 times, by turns).
 */
import { runTrial } from '../support/kubernetes/trial.ts';

const [seed = Date.now() % 1_000_000, operations = 200, kills = 50] = process.argv.slice(2).map(Number);
const ends: (() => Promise<void> | void)[] = [];

process.stdout.write(`seed ${seed}, ${operations} operations, ${kills} kills of API server and etcd\n`);
try {
  const report = await runTrial(
    { after: (end) => void ends.unshift(end) },
    { seed, operations, kills, settleMs: 300_000, onProgress: (line) => process.stderr.write(`${line}\n`) },
  );
  process.stdout.write(`${JSON.stringify(report, null, 2)}\n`);
} catch (error) {
  process.stdout.write(`${error instanceof Error ? error.message : error}\n`);
  process.exitCode = 1;
} finally {
  for (const end of ends) await end();
}
