/** The shape of a service's supervision tree: one supervisor, and parts that are restarted apart from each other. */
import { type AnyRef, type SystemRef, spawn, startSupervisor, stopped } from '../../supervision/index.ts';

/** What the supervisor of a service starts, and starts again after a crash. */
export interface Part {
  start(parent: AnyRef): AnyRef | Promise<AnyRef>;
}

/** The parts of a service, by name. A function is a part that no other part reaches; undefined is an absent part. */
export type Parts = Readonly<Record<string, Part | Part['start'] | undefined>>;

/** How long a part may take to end, ms. */
const PART_SHUTDOWN_MS = 5000;

/**
 * Restarts of the parts, together. A part that is down for a moment must not use them up, hence the backoff; one that
 * fails whenever it was started does within half a minute.
 */
const PARTS = { intensity: { max: 10, withinMs: 60_000 }, backoff: { minMs: 100, maxMs: 5000 } };
/** Restarts of the service as a whole, after its parts had too many. */
const SERVICE = { intensity: { max: 3, withinMs: 600_000 }, backoff: { minMs: 1000, maxMs: 10_000 } };

/**
 * Starts the parts of a service under `system`, by name, in order; they are stopped in reverse. Rejects when a part
 * cannot start. Gives what tells of a problem, in a sentence for operators, while the service is down.
 *
 *   up -- the parts had too many restarts --> down: all stop, `onUp(false)` -- a pause --> up: `onUp(true)`
 *                                               `-- down too often --> ended: the system's onGivingUp
 */
export async function startParts(
  system: SystemRef,
  name: string,
  parts: Parts,
  onUp: (isUp: boolean) => void = () => {},
): Promise<() => string | undefined> {
  const children = Object.entries(parts).flatMap(([id, part]) => {
    if (part === undefined) return [];
    const start = typeof part === 'function' ? part : (parent: AnyRef) => part.start(parent);
    return [{ id, restart: 'permanent' as const, shutdownMs: PART_SHUTDOWN_MS, start }];
  });
  let problem: string | undefined;
  const start = async (parent: AnyRef): Promise<AnyRef> => {
    const supervisor = await startSupervisor(parent, {
      name: 'parts',
      strategy: 'one-for-one',
      ...PARTS,
      children,
      onGivingUp: () => {
        problem = 'the service failed too often and is being restarted';
        onUp(false);
      },
    });
    problem = undefined;
    onUp(true);
    return supervisor;
  };
  const supervisor = await startSupervisor(system, {
    name,
    strategy: 'one-for-one',
    ...SERVICE,
    children: [{ id: 'parts', restart: 'permanent', shutdownMs: (children.length + 1) * PART_SHUTDOWN_MS, start }],
  });
  void stopped(supervisor).then((reason) => {
    problem = `the service has stopped (${reason.kind})`;
  });
  return () => problem;
}

/**
 * The actor that owns something which `close` ends: it is told nothing. When it cannot begin, because the service began
 * to stop meanwhile, `close` is called at once.
 */
export async function ownerActor(
  parent: AnyRef,
  service: string,
  name: string,
  close: () => Promise<void>,
): Promise<AnyRef> {
  try {
    return spawn<null, never>(parent, (state) => state, {
      name,
      kind: `${service}/${name}`,
      initialState: null,
      afterStop: close,
    });
  } catch (error) {
    await close();
    throw error;
  }
}

/** A parent of actors of which each ends alone when it fails: whoever is behind it comes back. */
export function connectionSupervisor(parent: AnyRef, service: string, name: string): AnyRef {
  return spawn<null, never>(parent, (state) => state, {
    name,
    kind: `${service}/${name}`,
    onCrash: (_message, _error, ctx, child) => (child === undefined ? ctx.resume : ctx.stopChild),
  });
}
