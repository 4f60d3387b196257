import type { Cell } from './cell.ts';
import type { Meta } from './mailbox.ts';

/**
 * Milliseconds the oldest message has been waiting or in its handler; 0 when there is none. The clock must be fresh.
 */
export function oldestAge(cell: Cell): number {
  let age = 0;
  const { queue } = cell.kind;
  const rare = cell.rare;
  if (rare?.running !== undefined) age = queue.ageOf(stampOf(rare.running.meta));
  if (rare?.inflight !== undefined) {
    for (const run of rare.inflight) age = Math.max(age, queue.ageOf(stampOf(run.meta)));
  }
  const signalled = rare?.signals?.oldest?.at;
  if (signalled !== undefined) age = Math.max(age, queue.ageOf(signalled));
  const waiting = cell.oldestMeta();
  return waiting === undefined ? age : Math.max(age, queue.ageOf(stampOf(waiting)));
}

function stampOf(meta: Meta): number {
  return typeof meta === 'number' ? meta : meta.at;
}
