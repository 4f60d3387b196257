import assert from 'node:assert/strict';
import { isDeepStrictEqual } from 'node:util';
import { pause } from '../../pause.ts';
import { turns } from '../../until.ts';

const PATIENCE_MS = 2000;
/** A busy machine may let all that time pass between two turns. */
const TURNS = 200;

/** Lets the loop turn until what is observed is what the model expects; fails with the difference when it never is. */
export async function settle(observed: () => unknown, expected: unknown): Promise<void> {
  const deadline = performance.now() + PATIENCE_MS;
  for (let turn = 1; ; turn++) {
    await (turn < 20 ? turns(1) : pause(1, 'watch'));
    if (isDeepStrictEqual(observed(), expected)) return;
    if (turn >= TURNS && performance.now() > deadline) break;
  }
  assert.deepEqual(observed(), expected);
}
