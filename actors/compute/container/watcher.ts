/**
 * The actor that notices: the engine's events as they come, and every few seconds a comparison of all rows with all
 * that the engine has, since events can be missed. It decides nothing; it tells containers' actors to look. Each node
 * watches over the containers that it holds, and looks at all of these when it takes some.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { errorText } from '../../../lib/errors.ts';
import type { Ending } from '../../../proto/ports/ending.ts';
import type { ContainerState } from '../../../proto/ports/engine.ts';
import { containerOutlines, deletedAmong } from '../../../storage/compute/containers.ts';
import { type AnyRef, type Context, dispatch, type Ref, spawn } from '../../../supervision/index.ts';
import type { ComputeDeps } from '../deps.ts';
import { COMPUTE_CONTAINER, SERVICE } from '../placed.ts';
import { driftOf, nextStep } from './rules.ts';

type WatcherMessage = { readonly type: 'changed'; readonly id: string } | { readonly type: 'sweep' };

/** What the watcher knows of the engine, for the service's health. */
export interface EngineHealth {
  /** A sentence for operators; undefined while the engine answers. */
  problem: string | undefined;
  /** How often the connection to it was made: another number means that it may have been restarted in between. */
  connections: number;
}

const SWEEP_EVERY_MS = 5000;
/** A sweep looks at so many containers in a row, then pauses, ms: thousands at once would hold up the database. */
const LOOKS_IN_A_ROW = 25;
const PAUSE_MS = 100;

/** Starts the watcher under `parent`. `reconcile` wakes a container's actor. */
export function startWatcher(
  parent: AnyRef,
  deps: ComputeDeps,
  reconcile: (containerId: string) => void,
  health: EngineHealth,
): Ref<WatcherMessage> {
  const { db, engine, placement, log } = deps;
  const isOurs = (id: string) => placement.holds(COMPUTE_CONTAINER, id);
  const strangers = new Set<string>();
  /** Differences that an actor was told of, and may have found to be there for good. */
  const told = new Map<string, string>();

  async function sweep(signal: AbortSignal): Promise<void> {
    let found: ContainerState[];
    try {
      found = await engine.list();
    } catch (error) {
      const message = errorText(error);
      if (health.problem === undefined) log.error({ err: error }, 'the container engine does not answer');
      health.problem = `container engine: ${message}`;
      return;
    }
    if (health.problem !== undefined) log.info({}, 'the container engine answers again');
    health.problem = undefined;
    const actual = new Map(found.filter(({ id }) => isOurs(id)).map((state) => [state.id, state]));
    let looks = 0;
    for (const row of await containerOutlines(db)) {
      if (!isOurs(row.id)) continue;
      const state = actual.get(row.id);
      actual.delete(row.id);
      const drift = state?.phase === 'running' ? driftOf(row, state) : undefined;
      if (nextStep(row, state, told.get(row.id)) !== 'settled') {
        reconcile(row.id);
        looks += 1;
        if (looks % LOOKS_IN_A_ROW === 0) await delay(PAUSE_MS, undefined, { signal }).catch(() => undefined);
        if (signal.aborted) return;
      }
      if (drift === undefined) told.delete(row.id);
      else told.set(row.id, drift);
    }
    if (actual.size > 0) await meet([...actual.keys()]);
  }

  /** Containers without a row. What was deleted for certain goes; of anything else a person should decide. */
  async function meet(ids: readonly string[]): Promise<void> {
    const deleted = await deletedAmong(db, ids);
    for (const id of ids) {
      // A row is forgotten after its container is gone: one that is gone now was no stranger.
      if (strangers.has(id) || (await engine.inspect(id)) === undefined) continue;
      if (deleted.includes(id)) {
        log.warn({ containerId: id }, 'removing a container whose creation outlasted its deletion');
        await engine.remove(id);
        continue;
      }
      log.warn({ containerId: id }, 'the engine has a container that the database does not know');
      strangers.add(id);
    }
  }

  const watching = (ctx: Context<WatcherMessage>): Ending => {
    const acquiring = placement.onAcquired(SERVICE, () => dispatch(ctx.self, { type: 'sweep' }));
    const events = engine.watch((id) => {
      if (id === undefined) health.connections++;
      dispatch(ctx.self, id === undefined ? { type: 'sweep' } : { type: 'changed', id });
    });
    return {
      close: () => {
        acquiring();
        return events.close();
      },
    };
  };

  return spawn<Ending, WatcherMessage>(
    parent,
    async (ending, message, ctx) => {
      if (message.type === 'changed') {
        if (isOurs(message.id)) reconcile(message.id);
      } else await sweep(ctx.signal);
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
