import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cellOf } from '../../supervision/cell/context.ts';
import * as flags from '../../supervision/cell/flags.ts';
import { spawn, start, stop, stopped } from '../../supervision/index.ts';

test('each phase of an actor is legal, and what mixes two is not', () => {
  const { HELD, RESETTING, STOPPING, ENDED, CHILDREN_TOLD, CHILDREN_HOOK, AFTER_STOP, QUEUED, SLOT, PILE } = flags;
  const stopping = STOPPING | CHILDREN_TOLD;
  for (const legal of [0, HELD, HELD | RESETTING, STOPPING, stopping | AFTER_STOP, ENDED, ENDED | QUEUED]) {
    assert.equal(flags.illegalFlags(legal), undefined, `${legal}`);
  }
  const illegal = [RESETTING, STOPPING | HELD, STOPPING | RESETTING, ENDED | STOPPING, ENDED | SLOT, SLOT | PILE];
  for (const mixed of [
    ...illegal,
    CHILDREN_TOLD,
    STOPPING | CHILDREN_HOOK,
    AFTER_STOP,
    STOPPING | SLOT,
    flags.SLEEPY,
  ]) {
    assert.notEqual(flags.illegalFlags(mixed), undefined, `${mixed}`);
  }
});

test('an actor whose flags do not go together is reported at its next step', async () => {
  const problems: string[] = [];
  const system = start({ name: 'test', onIllegalFlags: (problem) => problems.push(problem) });
  const sound = spawn(system, () => undefined);
  stop(sound);
  await stopped(sound);
  assert.deepEqual(problems, []);
  const ref = spawn(system, () => undefined, { name: 'odd' });
  cellOf(ref).flags |= flags.CHILDREN_HOOK | flags.CHILDREN_TOLD;
  cellOf(ref).initFailed(new Error('x'));
  assert.match(problems[0] ?? '', /test:.*odd.*children told for no reason/);
  stop(system);
  await stopped(system);
});
