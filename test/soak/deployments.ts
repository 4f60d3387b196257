/**
 * Does the page of before stay while a deployment goes wrong? `npm run soak -- deployments [POINTS [REQUESTS A SECOND [SEED]]]`, with DOCKER_HOST:
 * a build that takes all memory of its container, again and again, and a line that is cut at moments spread over a deployment. 200 requests a second
 * ask for the page all the time.
 */
import { tryCutLines, tryHungryBuilds } from '../support/deploy/trials.ts';

const [points = 10, perSecond = 200, seed = Date.now() % 1_000_000] = process.argv.slice(2, 5).map(Number);
process.stdout.write(`seed ${seed}\n`);
for (const [what, trial] of [
  ['builds without memory', () => tryHungryBuilds(points, perSecond)],
  ['cuts of the line', () => tryCutLines(points, perSecond, seed)],
] as const) {
  const { requests, failures, versions, done, undone, problems } = await trial();
  process.stdout.write(
    `${what}: ${requests} requests, ${failures.length} failed; ${done} done, ${undone} undone; pages ${versions.join(' ')}\n`,
  );
  for (const each of new Set([...failures, ...problems])) process.stdout.write(`${each}\n`);
  if (failures.length + problems.length > 0) process.exitCode = 1;
}
