/**
 * Does the actor runtime do what its models say? 500,000 random programs, or as many as ten minutes hold.
 *
 * `npm run soak -- model [NAME [MINUTES [SEED]]]`: all models in turn, or the one of that name in test/support/supervision/models. The
 * order in which actors run comes from a seed, and time is virtual; `real:NAME` runs a model on the event loop's own. A failure prints
 * its seed and the shortest program that shows it: the same seed with the same name replays it.
 */
import { inspect } from 'node:util';
import fc from 'fast-check';
import { models } from '../support/supervision/models/index.ts';

const PROGRAMS = 500_000;
const MINUTES = 10;
const BATCH = 200;

const [only = 'all', minutes = MINUTES, seed] = process.argv.slice(2);
const all = Object.entries(models).flatMap(([name, { real, seeded }]) => [
  { name, property: seeded },
  ...(real === undefined ? [] : [{ name: `real:${name}`, property: real }]),
]);
const chosen = all.filter(({ name }) => (only === 'all' ? !name.startsWith('real:') : name === only));
if (chosen.length === 0) throw new Error(`the models are ${all.map(({ name }) => name).join(', ')}`);
const end = performance.now() + Number(minutes) * 60_000;
let left = chosen.length;
for (const { name, property } of chosen) {
  const begin = performance.now();
  const limit = begin + (end - begin) / left--;
  let programs = 0;
  let next = seed === undefined ? Date.now() % 1_000_000_000 : Number(seed);
  // In batches: a program under way when the time is over would otherwise go on beside the next model.
  while (programs < PROGRAMS / chosen.length && performance.now() < limit) {
    const details = await fc.check(property, { numRuns: BATCH, seed: next++ });
    programs += details.numRuns;
    if (!details.failed) continue;
    process.stdout.write(`${await fc.asyncDefaultReportMessage(details)}\n${inspect(details.errorInstance)}\n`);
    process.exitCode = 1;
    break;
  }
  const seconds = ((performance.now() - begin) / 1000).toFixed(0);
  process.stdout.write(`${name}: ${programs.toLocaleString('en')} programs, ${seconds} s, seeds up to ${next - 1}\n`);
}
