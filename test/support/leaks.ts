/** Finds what a test file leaves behind. */
import { after } from 'node:test';

/** Resources of the process itself, and of the way a test runner talks to it. */
const OWN = new Set(['TTYWrap', 'PipeWrap', 'FSReqPromise', 'FSReqCallback', 'CloseReq', 'Immediate']);

declare global {
  /** Of the process that runs this file after others (scripts/test/lane.mjs), which looks for leaks after each file. */
  var troupeTestLane: { allowed: readonly string[] } | undefined;
}

/**
 * Fails a test file when its timers, sockets, servers or child processes outlive its tests by `graceMs` (default 5000),
 * and names their kinds: without it the file would hang until the runner's time is over. Call it at the top of the file.
 * What a test left but unreferenced is not seen. `allowed`: kinds that may stay.
 */
export function failOnLeaks(options: { readonly allowed?: readonly string[]; readonly graceMs?: number } = {}): void {
  if (globalThis.troupeTestLane !== undefined) {
    globalThis.troupeTestLane.allowed = options.allowed ?? [];
    return;
  }
  const before = activeResources();
  after(() => {
    // Other hooks may end things after this one. If all is ended, the process is gone before this fires.
    const timer = setTimeout(() => {
      const left = leftOver(before, activeResources(), options.allowed ?? []);
      if (left.length === 0) return;
      process.stderr.write(`resources were left open: ${left.join(', ')}\n`);
      process.exit(1);
    }, options.graceMs ?? 5000);
    timer.unref();
  });
}

/** What keeps the event loop alive: how many of each kind. */
export function activeResources(): Map<string, number> {
  const counts = new Map<string, number>();
  for (const kind of process.getActiveResourcesInfo()) {
    if (!OWN.has(kind)) counts.set(kind, (counts.get(kind) ?? 0) + 1);
  }
  return counts;
}

/** Kinds of which there are more now than before, as `Kind x2`. */
export function leftOver(
  before: ReadonlyMap<string, number>,
  now: ReadonlyMap<string, number>,
  allowed: readonly string[],
): string[] {
  return [...now].flatMap(([kind, count]) => {
    const more = count - (before.get(kind) ?? 0);
    return more > 0 && !allowed.includes(kind) ? [`${kind} x${more}`] : [];
  });
}
