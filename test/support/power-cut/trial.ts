/** The trial of power cuts: everything is killed at moments spread over a step, and after it the step is done or undone. */
import assert from 'node:assert/strict';
import { deleteAll } from '../cluster/platform.ts';
import { docker, inDocker } from '../engine/docker-client.ts';
import { pause } from '../pause.ts';
import { tidily } from '../temp.ts';
import { cutPower, randoms } from './cuts.ts';
import { Plant } from './plant.ts';
import { type CutStep, deployStep, pushStep, revisionStep } from './steps.ts';

export type StepName = 'deploy' | 'release' | 'revision' | 'push';

/** What became of the cuts of one step. */
export interface CutReport {
  readonly step: string;
  /** Of the step without a cut. */
  readonly lengthMs: number;
  readonly done: number;
  readonly undone: number;
  /** From the start of the platform until all was settled and looked at. */
  readonly longestMs: number;
  readonly problems: readonly string[];
}

/** Cuts each step at `points` moments. */
export function runPowerCuts(
  { points, seed, steps }: { readonly points: number; readonly seed: number; readonly steps: readonly StepName[] },
  say: (line: string) => void = () => {},
): Promise<CutReport[]> {
  const random = randoms(seed);
  return tidily(async (t) => {
    const plant = await Plant.open(t);
    t.after(async () => {
      await deleteAll(plant.platform.ready.urls.compute, plant.token);
      const pulled = ['page:0', 'page:1'].map((name) => `registry.${plant.domain}/admin/${name}`);
      for (const image of [...pulled, ...plant.images])
        await docker()
          .call('DELETE', `/images/${image}`)
          .catch(() => {});
    });
    const reports: CutReport[] = [];
    for (const name of steps) {
      const step = await stepOf(plant, name);
      reports.push(await cutStep(plant, step, { points, random, say }));
    }
    return reports;
  });
}

function stepOf(plant: Plant, name: StepName): Promise<CutStep> {
  if (name === 'revision') return revisionStep(plant);
  return name === 'push' ? pushStep(plant) : deployStep(plant, name);
}

async function cutStep(
  plant: Plant,
  step: CutStep,
  { points, random, say }: { points: number; random: () => number; say: (line: string) => void },
): Promise<CutReport> {
  let version = 1;
  for (const each of [version, version + 1]) await step.prepare?.(each);
  await step.begin(version);
  const began = performance.now();
  await step.begin(++version);
  const lengthMs = Math.round(performance.now() - began);
  const problems: string[] = [];
  let [done, longestMs] = [0, 0];
  for (let point = 0; point < points; point++) {
    const momentMs = Math.round(((point + random()) / points) * lengthMs);
    const said = `${step.name}, ${momentMs} of ${lengthMs} ms`;
    await step.prepare?.(version + 1);
    try {
      await cutOnce(plant, step, version + 1, momentMs);
      const started = performance.now();
      await plant.start();
      const found = await step.version();
      longestMs = Math.max(longestMs, Math.round(performance.now() - started));
      assert.ok(found === version || found === version + 1, `it is ${found}, and was ${version}`);
      if (found === version + 1) done += 1;
      say(`${said}: ${found === version ? 'undone' : 'done'}`);
      version += 1;
      await step.begin(version);
      assert.equal(await step.version(), version, 'the repeated step did not end well');
    } catch (error) {
      const why = `${said}: ${error instanceof Error ? error.message : error}`;
      problems.push(why);
      say(why);
      // The next point begins from what is there.
      await step.prepare?.(++version);
      await step.begin(version);
    }
  }
  return { step: step.name, lengthMs, done, undone: points - done - problems.length, longestMs, problems };
}

async function cutOnce(plant: Plant, step: CutStep, version: number, momentMs: number): Promise<void> {
  const containers = (await Promise.all(step.containers.map(inDocker))).flat().map(({ id }) => id);
  void step.begin(version).catch(() => {});
  await pause(momentMs, 'fault');
  const now = (await Promise.all(step.containers.map(inDocker))).flat().map(({ id }) => id);
  const fell = plant.fell();
  await cutPower(plant.folder, [...new Set([...containers, ...now])]);
  await fell;
}
