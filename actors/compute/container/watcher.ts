/**
 * The actor that notices: the engine's events as they come, every few seconds what changed and was not settled before,
 * and now and then all, since events can be missed (sweeps.ts). Each node watches over the containers that it holds,
 * and looks at all of these when it takes some.
 */
import type { Ending } from '../../../proto/ports/ending.ts';
import { type AnyRef, type Context, dispatch, type Ref, spawn } from '../../../supervision/index.ts';
import type { ComputeDeps } from '../deps.ts';
import { SERVICE } from '../placed.ts';
import { type EngineHealth, Sweeps } from './sweeps.ts';
import { UnnamedImages } from './unnamed-images.ts';

type WatcherMessage =
  | { readonly type: 'changed'; readonly id: string }
  /** Look at what changed. */
  | { readonly type: 'look' }
  /** Look at all. */
  | { readonly type: 'sweep' };

const LOOK_EVERY_MS = 5000;

/** Starts the watcher under `parent`. `reconcile` wakes a container's actor. */
export function startWatcher(
  parent: AnyRef,
  deps: ComputeDeps,
  reconcile: (containerId: string) => void,
  health: EngineHealth,
): Ref<WatcherMessage> {
  const { engine, placement, log } = deps;
  const sweeps = new Sweeps(deps, reconcile, health);
  const unnamed = new UnnamedImages(deps);

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
      if (message.type === 'changed') sweeps.changed(message.id);
      else {
        await (message.type === 'look' ? sweeps.look(ctx.signal) : sweeps.sweep(ctx.signal));
        await unnamed.look();
      }
      return ending;
    },
    {
      name: 'watcher',
      kind: 'compute/watcher',
      mailbox: { capacity: 10_000, policy: 'drop-newest' },
      initialStateFunc: (ctx) => {
        ctx.every(LOOK_EVERY_MS, { type: 'look' });
        return watching(ctx);
      },
      onCrash: (_message, error, ctx) => {
        // The database or the engine is away: the next look tries again, at all.
        log.error({ err: error }, 'a sweep over all containers failed');
        return ctx.resume;
      },
      afterStop: (ending: Ending | undefined) => ending?.close(),
    },
  );
}
