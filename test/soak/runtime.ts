/**
 * Does the actor runtime leave anything behind? 10 million messages, then 1 million actors made and ended.
 *
 * `npm run soak -- runtime`: the heap after each tenth; fails when it ends more than 2 MB above where it was.
 */
import { start, stop, stopped } from '../../supervision/index.ts';
import { heapInUse, manyLives, manyMessages } from '../support/supervision/churn.ts';

const MB = 2 ** 20;
const system = start();

for (const [what, count, work] of [
  ['messages', 10_000_000, manyMessages],
  ['lives', 1_000_000, manyLives],
] as const) {
  await work(system, count / 100); // What is made once, and compiled.
  const before = heapInUse();
  const begin = performance.now();
  const grown: string[] = [];
  let last = before;
  for (let tenth = 0; tenth < 10; tenth++) {
    await work(system, count / 10);
    last = heapInUse();
    grown.push(((last - before) / MB).toFixed(2));
  }
  const seconds = ((performance.now() - begin) / 1000).toFixed(1);
  process.stdout.write(
    `${count.toLocaleString('en')} ${what}, ${seconds} s: ${(before / MB).toFixed(2)} MB before, then ${grown.join(' ')} MB more\n`,
  );
  if (last - before > 2 * MB) process.exitCode = 1;
}
stop(system);
await stopped(system);
