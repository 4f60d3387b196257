import { Ask } from './asks.ts';
import type { Cell } from './cell.ts';
import type { Meta } from './mailbox.ts';
import { ageOf } from './run-queue.ts';

/**
 * Milliseconds the oldest message has been waiting or in its handler; 0 when there is none. The clock must be fresh.
 */
export function oldestAge(cell: Cell): number {
  let age = 0;
  const rare = cell.rare;
  if (rare?.running !== undefined) age = ageOf(stampOf(rare.running.meta));
  if (rare?.inflight !== undefined) {
    for (const run of rare.inflight) age = Math.max(age, ageOf(stampOf(run.meta)));
  }
  const signalled = rare?.signals?.since;
  if (signalled !== undefined) age = Math.max(age, ageOf(signalled));
  const waiting = cell.oldestMeta();
  return waiting === undefined ? age : Math.max(age, ageOf(stampOf(waiting)));
}

function stampOf(meta: Meta): number {
  return meta instanceof Ask ? meta.at : meta;
}
