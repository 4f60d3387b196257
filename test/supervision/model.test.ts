import { test } from 'node:test';
import fc from 'fast-check';
import { models } from '../support/supervision/models/index.ts';

// A failure prints its seed and the shortest program that shows it. The long form is `npm run soak -- model`.
for (const { title, runs, real, seeded } of Object.values(models)) {
  if (real !== undefined) test(title, () => fc.assert(real, { numRuns: runs }));
  test(`${title}, in an order of a seed`, () => fc.assert(seeded, { numRuns: runs }));
}
