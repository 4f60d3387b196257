/** The shape of a service's supervision tree: one supervisor, and parts that are restarted apart from each other. */
import { type AnyRef, type SupervisorRef, type SystemRef, spawn, startSupervisor } from '../../supervision/index.ts';

/** What the supervisor of a service starts, and starts again after a crash. */
export interface Part {
  start(parent: AnyRef): AnyRef | Promise<AnyRef>;
}

/** The parts of a service, by name. A function is a part that no other part reaches; undefined is an absent part. */
export type Parts = Readonly<Record<string, Part | Part['start'] | undefined>>;

/** How long a part may take to end, ms. */
const PART_SHUTDOWN_MS = 5000;

/**
 * Starts the supervisor of a service with its parts, by name, in order; they are stopped in reverse. Rejects when a
 * part cannot start. A part that is down for a moment must not use up the restarts: hence the backoff.
 */
export function startServiceSupervisor(system: SystemRef, name: string, parts: Parts): Promise<SupervisorRef> {
  return startSupervisor(system, {
    name,
    strategy: 'one-for-one',
    intensity: { max: 10, withinMs: 10_000 },
    backoff: { minMs: 100, maxMs: 5000 },
    children: Object.entries(parts).flatMap(([id, part]) => {
      if (part === undefined) return [];
      const start = typeof part === 'function' ? part : (parent: AnyRef) => part.start(parent);
      return [{ id, restart: 'permanent' as const, shutdownMs: PART_SHUTDOWN_MS, start }];
    }),
  });
}

/** A parent of actors of which each ends alone when it fails: whoever is behind it comes back. */
export function connectionSupervisor(parent: AnyRef, service: string, name: string): AnyRef {
  return spawn<null, never>(parent, (state) => state, {
    name,
    kind: `${service}/${name}`,
    onCrash: (_message, _error, ctx, child) => (child === undefined ? ctx.resume : ctx.stopChild),
  });
}
