/**
 * The actor that notices: the engine's events as they come, and every few seconds a comparison of all rows with all that the
 * engine has, since events can be missed. It decides nothing; it tells containers' actors to look.
 */
import type { ContainerState, Ending } from '../../proto/ports.ts';
import { containerOutlines } from '../../storage/compute/containers.ts';
import { type AnyRef, type Context, dispatch, type Ref, spawn } from '../../supervision/index.ts';
import { needsLook } from './container-rules.ts';
import type { ComputeDeps } from './deps.ts';

export type WatcherMessage = { readonly type: 'changed'; readonly id: string } | { readonly type: 'sweep' };

/** What the watcher knows of the engine, for the service's health. */
export interface EngineHealth {
  /** A sentence for operators; undefined while the engine answers. */
  problem: string | undefined;
}

const SWEEP_EVERY_MS = 5000;

/** Starts the watcher under `parent`. `look` wakes a container's actor. */
export function startWatcher(
  parent: AnyRef,
  deps: ComputeDeps,
  look: (containerId: string) => void,
  health: EngineHealth,
): Ref<WatcherMessage> {
  const { db, engine, log } = deps;
  const strangers = new Set<string>();

  async function sweep(): Promise<void> {
    let found: ContainerState[];
    try {
      found = await engine.list();
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      if (health.problem === undefined) log.error({ err: error }, 'the container engine does not answer');
      health.problem = `container engine: ${message}`;
      return;
    }
    if (health.problem !== undefined) log.info({}, 'the container engine answers again');
    health.problem = undefined;
    const actual = new Map(found.map((state) => [state.id, state]));
    for (const row of await containerOutlines(db)) {
      if (needsLook(row, actual.get(row.id))) look(row.id);
      actual.delete(row.id);
    }
    for (const id of actual.keys()) {
      // A row is forgotten after its container is gone: one that is still there has none, and a person should decide.
      if (strangers.has(id) || (await engine.inspect(id)) === undefined) continue;
      log.warn({ containerId: id }, 'the engine has a container that the database does not know');
      strangers.add(id);
    }
  }

  const watching = (ctx: Context<WatcherMessage>): Ending =>
    engine.watch((id) => dispatch(ctx.self, id === undefined ? { type: 'sweep' } : { type: 'changed', id }));

  return spawn<Ending, WatcherMessage>(
    parent,
    async (ending, message) => {
      if (message.type === 'changed') look(message.id);
      else await sweep();
      return ending;
    },
    {
      name: 'watcher',
      kind: 'compute/watcher',
      mailbox: { capacity: 10_000, policy: 'drop-newest' },
      initialStateFunc: (ctx) => {
        ctx.every(SWEEP_EVERY_MS, { type: 'sweep' });
        return watching(ctx);
      },
      onCrash: (_message, error, ctx) => {
        // The database or the engine is away: the next sweep tries again.
        log.error({ err: error }, 'a sweep over all containers failed');
        return ctx.resume;
      },
      afterStop: (ending: Ending | undefined) => ending?.close(),
    },
  );
}
