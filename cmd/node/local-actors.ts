/** The actors of this process, as operators see them. */
import { withTimeout } from '../../lib/waiting.ts';
import type { ActorDetailsView, ActorVerb, ActorView } from '../../proto/auth/actors.ts';
import {
  type ActorDetails,
  find,
  inspect,
  isEntity,
  release,
  reset,
  type SystemRef,
  stop,
  stopped,
  type TreeNode,
  tree,
} from '../../supervision/index.ts';

/** How much of a tree is wanted: of each actor so many children; so many actors in all. */
interface TreeLimits {
  readonly maxChildren: number;
  readonly maxActors: number;
}

/** Deeper ones are left out. */
const MAX_DEPTH = 50;
/** How long the end of an actor is waited for, ms. */
const END_MS = 1000;
/** Kinds on which other actors rest, also while they have no children. */
const GUARDED: readonly string[] = ['supervisor', 'entities', 'singleton', 'system'];

/** The tree as a list, a parent before its children. Of a larger one fewer children of each actor. */
export function listLocalActors(system: SystemRef, { maxChildren, maxActors }: TreeLimits): ActorView[] {
  for (let children = maxChildren; ; children = Math.floor(children / 3)) {
    const actors = flat(tree(system, { maxChildren: children, maxDepth: MAX_DEPTH }));
    if (actors.length <= maxActors || children === 0) return actors;
  }
}

function flat(node: TreeNode): ActorView[] {
  const { path, kind, status, depth, oldestMs, restarts, handler, omitted = 0, children } = node;
  const now = handler === undefined ? {} : { handler };
  return [{ path, kind, status, depth, oldest_ms: oldestMs, restarts, ...now, omitted }, ...children.flatMap(flat)];
}

/** The actor at a path; undefined when none lives there. `node`: the address of this process. */
export function showLocalActor(system: SystemRef, path: string, node: string): ActorDetailsView | undefined {
  const ref = find(system, path);
  if (ref === undefined) return undefined;
  const details = inspect(ref);
  const { kind, status, depth, oldestMs, restarts, children, handlers, waiting, lastCrash } = details;
  return {
    node,
    path: details.path,
    kind,
    status,
    depth,
    oldest_ms: oldestMs,
    restarts,
    children,
    handlers: [...handlers],
    waiting: [...waiting],
    ...(lastCrash === undefined ? {} : { last_crash: lastCrash }),
    is_entity: isEntity(ref),
    is_guarded: isGuarded(details, isEntity(ref)),
  };
}

/** What has no supervisor above it, and what others live under or are placed by. An entity wakes again. */
function isGuarded({ kind, path, children }: ActorDetails, isAnEntity: boolean): boolean {
  const [, inTree = ''] = path.split('://');
  if (!inTree.includes('/') || GUARDED.includes(kind) || kind.startsWith('placement')) return true;
  return children > 0 && !isAnEntity;
}

/**
 * Acts on an actor and waits a moment for the effect. What comes back says whether it is done (an actor that works may
 * end later), or why not; undefined: there is no such actor.
 */
export async function actOnLocalActor(
  system: SystemRef,
  path: string,
  verb: ActorVerb,
): Promise<{ readonly isDone: boolean } | { readonly problem: string } | undefined> {
  const ref = find(system, path);
  if (ref === undefined) return undefined;
  switch (verb) {
    case 'reset':
      return reset(ref) ? { isDone: true } : { problem: `${ref.path} was reset too often lately, or is ending.` };
    case 'release':
      release(ref);
      break;
    case 'stop':
      stop(ref, 'an operator stopped it');
      break;
  }
  return {
    isDone: await withTimeout(
      stopped(ref).then(() => true),
      END_MS,
      () => false,
    ),
  };
}
