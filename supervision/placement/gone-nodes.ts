import type { ClusterView } from './view.ts';
import { packGone } from './wire.ts';

/** More nodes than this are not all told at once of one that is gone: their next beats tell them. */
export const CROWD = 50;

/**
 * The news of a node that was the first to see that these are in its view no more: who should be told, and what.
 * Undefined if nobody needs to be. Who is told need not wait for a beat of its own to take their shards, and to end
 * asks that wait for them. One that was told finds nothing new at its next beat, so it tells nobody.
 */
export function newsOfGone(
  view: ClusterView,
  gone: readonly string[],
): { readonly told: Iterable<string>; readonly data: Uint8Array } | undefined {
  const living = view.nodes.size;
  // Where most are gone the database was away, or this node: nobody has to be told of that.
  if (gone.length === 0 || gone.length > living) return undefined;
  return { told: living <= CROWD ? view.nodes.keys() : view.heirs(new Set(gone)), data: packGone(gone) };
}
