/**
 * Is a container's secret anywhere but in the container? `npm run soak -- canary [ROUNDS]`, with DOCKER_HOST: each round has a platform, secrets
 * and passwords of its own, all that can happen to a container with them, and looks for them in all that others can see.
 */
import { runCanary } from '../support/canary/trial.ts';

const rounds = Number(process.argv[2] ?? 3);
for (let round = 1; round <= rounds; round++) {
  const { found, ...figures } = await runCanary({ say: (line) => void process.stderr.write(`${line}\n`) });
  process.stdout.write(`round ${round}: ${JSON.stringify(figures)}, found ${found.length}\n`);
  for (const one of found) process.stdout.write(`${JSON.stringify(one)}\n`);
  if (found.length > 0) process.exitCode = 1;
}
