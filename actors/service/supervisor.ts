/** The shape of a service's supervision tree: one supervisor, and parts that are restarted apart from each other. */
import { type AnyRef, type SupervisorRef, type SystemRef, spawn, startSupervisor } from '../../supervision/index.ts';

/** Starts a part under the service's supervisor; called again at each restart. */
type StartPart = (parent: AnyRef) => AnyRef | Promise<AnyRef>;

/** How long a part may take to end, ms. */
const PART_SHUTDOWN_MS = 5000;

/**
 * Starts the supervisor of a service with its parts, by name, in order; they are stopped in reverse. Rejects when a
 * part cannot start. A part that is down for a moment must not use up the restarts: hence the backoff.
 */
export function startServiceSupervisor(
  system: SystemRef,
  name: string,
  parts: Readonly<Record<string, StartPart>>,
): Promise<SupervisorRef> {
  return startSupervisor(system, {
    name,
    strategy: 'one-for-one',
    intensity: { max: 10, withinMs: 10_000 },
    backoff: { minMs: 100, maxMs: 5000 },
    children: Object.entries(parts).map(([id, start]) => ({
      id,
      restart: 'permanent',
      shutdownMs: PART_SHUTDOWN_MS,
      start,
    })),
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
