import { setImmediate as turn } from 'node:timers/promises';
import { ActorError } from '../common/errors.ts';
import type { SystemRef } from '../common/ref.ts';
import { type TreeNode, tree } from '../system/stats.ts';

/**
 * Resolves once no actor of the system has anything to do: no message waits, no handler runs, nobody starts or stops.
 * Timers may still be set. So a test can tell that a message did not come. Rejects with ActorError `timeout`.
 */
export async function settled(system: SystemRef, withinMs: number = 1000): Promise<void> {
  const deadline = performance.now() + withinMs;
  for (;;) {
    await turn();
    const busy = firstBusy(tree(system, { maxChildren: Number.POSITIVE_INFINITY }));
    if (busy === undefined) return;
    if (performance.now() > deadline) throw new ActorError('timeout', `${busy.path} is ${busy.status}`);
  }
}

/** An actor that is not idle, the deepest first. */
function firstBusy(node: TreeNode): TreeNode | undefined {
  for (const child of node.children) {
    const busy = firstBusy(child);
    if (busy !== undefined) return busy;
  }
  return node.status === 'idle' ? undefined : node;
}
