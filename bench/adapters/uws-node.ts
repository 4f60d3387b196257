/** Which Node.js runs a child of a benchmark: uWebSockets.js has no build for the one that Troupe brings. */
import { loadUws } from '../../transports/http/uws-library.ts';

/**
 * The program that runs a child. `needsUws`: whether it loads uWebSockets.js; then it is the one that BENCH_UWS_NODE names, where ours has no
 * build of it. Throws when there is none.
 */
export function nodeFor(needsUws: boolean): string {
  if (!needsUws || loadUws() !== undefined) return process.execPath;
  const { BENCH_UWS_NODE } = process.env;
  if (BENCH_UWS_NODE === undefined || BENCH_UWS_NODE === '')
    throw new Error('uWebSockets.js has no build for this Node.js: name one of 20, 22 or 24 in BENCH_UWS_NODE.');
  return BENCH_UWS_NODE;
}
