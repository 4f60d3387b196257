/**
 * Is a step that a power cut interrupts done or undone? `npm run soak -- power-cut [POINTS] [SEED] [STEP...]`, with DOCKER_HOST: at ten moments of
 * deploy, release, revision and push each, the platform, PostgreSQL, the registry, the command and the containers get SIGKILL.
 */
import { runPowerCuts, type StepName } from '../support/power-cut/trial.ts';

const [points = '10', seed = String(Date.now() % 1_000_000), ...names] = process.argv.slice(2);
const all: readonly StepName[] = ['deploy', 'release', 'revision', 'push'];
const steps = names.length === 0 ? all : all.filter((step) => names.includes(step));
process.stdout.write(`seed ${seed}, ${points} points of ${steps.join(', ')}\n`);
const say = (line: string): void => void process.stdout.write(`${line}\n`);
for (const report of await runPowerCuts({ points: Number(points), seed: Number(seed), steps }, say)) {
  say(JSON.stringify(report));
  if (report.problems.length > 0) process.exitCode = 1;
}
