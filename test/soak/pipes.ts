/**
 * Does anybody get another's answer over shared connections to an origin? `npm run soak -- pipes [SEED] [ROUNDS]`: 20,000 rounds of up
 * to 48 clients; fails when one answer is wrong.
 */
import { runPipeTrial } from '../support/gateway/pipe-trial.ts';

const [seed = 1, rounds = 20_000] = process.argv.slice(2).map(Number);
const ends: (() => Promise<void> | void)[] = [];
try {
  const report = await runPipeTrial({ after: (end) => void ends.unshift(end) }, { seed, rounds, clients: 48 });
  process.stdout.write(`${JSON.stringify(report)}\n`);
  if (report.wrong.length > 0) process.exitCode = 1;
} finally {
  for (const end of ends) await end();
}
