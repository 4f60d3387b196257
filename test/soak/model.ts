/**
 * Does the actor runtime do what its models say? 200,000 random programs, or as many as ten minutes hold.
 *
 * `npm run soak -- model [NAME [SEED]]`: all models in turn, or the one of that name in test/supervision/models; a failure
 * prints its seed and the shortest program that shows it.
 */
import fc from 'fast-check';
import { models } from '../supervision/models/index.ts';

const PROGRAMS = 200_000;
const MINUTES = 10;

const [only, seed] = process.argv.slice(2);
const chosen = Object.entries(models).filter(([name]) => only === undefined || name === only);
if (chosen.length === 0) throw new Error(`the models are ${Object.keys(models).join(', ')}`);
const end = performance.now() + MINUTES * 60_000;
let left = chosen.length;
for (const [name, { property }] of chosen) {
  const begin = performance.now();
  const details = await fc.check(property, {
    numRuns: PROGRAMS / chosen.length,
    interruptAfterTimeLimit: (end - begin) / left--,
    ...(seed === undefined ? {} : { seed: Number(seed) }),
  });
  const seconds = ((performance.now() - begin) / 1000).toFixed(0);
  const programs = details.numRuns.toLocaleString('en');
  process.stdout.write(`${name}: ${programs} programs, ${seconds} s, seed ${details.seed}\n`);
  if (!details.failed || details.counterexample === null) continue;
  process.stdout.write(`${await fc.asyncDefaultReportMessage(details)}\n`);
  process.exitCode = 1;
}
