/**
 * The cluster, as services see it: where their entities live, by what right those write, and work that one node does at
 * a time.
 */
import type { Log } from '../../proto/ports/log.ts';
import { PlacementError, type ShardLease } from '../../proto/ports/placement.ts';
import {
  type AnyRef,
  dispatch,
  type Entities,
  type EntityKind,
  entities,
  type SystemRef,
  spawn,
} from '../../supervision/index.ts';
import { type Cluster, jsonCodec, type PlacedKind } from '../../supervision/placement/index.ts';

/**
 * Entities are placed when they are made, ask for their lease before they read their state, and write by it
 * (storage/fenced.ts). What must happen once in the cluster is done by the node that holds an id of its choice.
 */
export type Placement = Pick<Cluster, 'place' | 'lease' | 'holds' | 'held' | 'onAcquired' | 'setUp' | 'timers'>;

/** What handlers need of an entity to write for it. */
export interface LeaseHolder {
  readonly lease: ShardLease;
}

/**
 * Throws PlacementError `fenced` once another node may hold the entity that took `lease`: a process that was frozen
 * finds out before it changes what no transaction guards.
 */
export function mustHold(
  placement: Pick<Placement, 'lease'>,
  kind: Parameters<Placement['lease']>[0],
  id: string,
  lease: ShardLease,
): void {
  if (placement.lease(kind, id).epoch !== lease.epoch)
    throw new PlacementError('fenced', `${kind.kind} ${id} was with another node meanwhile`);
}

/** What the entity is told. Nobody tells it from elsewhere. */
type SingletonMessage = 'wake' | { readonly failed: unknown };

/** A piece of work. */
interface SingletonOptions {
  /** The role of the nodes that can do it. */
  readonly service: string;
  readonly name: string;
  readonly placement: Placement;
  readonly log: Log;
  /** Does it until the signal aborts. After a rejection, or an end before that, it begins again after a pause. */
  readonly work: (signal: AbortSignal) => Promise<void>;
}

interface SingletonState {
  readonly end: AbortController;
  readonly done: Promise<void>;
}

/** How often a node looks whether it is the one, besides when it takes shards: after too many failures in a row. */
const LOOK_EVERY_MS = 5000;
/** A pause between failures: as long as it is the same, doing it again at once would not help. */
const BACKOFF = { minMs: 500, maxMs: 30_000 };

/**
 * Starts work that one node of the cluster does at a time, under `parent`, before the node joins; ends with the actor
 * that is returned. It is an entity that works while it is awake: it wakes on the node that takes its shard, and lets
 * go of the work before the shard is handed over.
 *
 *   asleep -- its node has the shard --> working -- the shard goes to another node --> asleep
 *                                           |-- the work failed: again, after a pause
 */
export function startSingleton(parent: AnyRef | SystemRef, options: SingletonOptions): AnyRef {
  const { service, name, placement, log, work } = options;
  const placed: PlacedKind<'wake'> = {
    kind: `${service}/${name}`,
    service,
    codec: jsonCodec(() => 'wake'),
  };
  const kind: EntityKind<SingletonMessage, SingletonState> = {
    kind: placed.kind,
    sleepAfterMs: LOOK_EVERY_MS,
    backoff: BACKOFF,
    activate: (id, ctx) => {
      placement.lease(placed, id);
      const end = new AbortController();
      ctx.keepAwake(true);
      log.info({ work: placed.kind }, 'this node does it now');
      const failed = (error: unknown) => {
        if (!end.signal.aborted) dispatch(ctx.self, { failed: error });
      };
      const done = work(AbortSignal.any([end.signal, ctx.signal])).then(
        () => failed(new Error(`${placed.kind} ended`)),
        failed,
      );
      return { end, done };
    },
    handle: (state, message, ctx) => {
      ctx.keepAwake(true);
      if (message === 'wake') return state;
      throw message.failed;
    },
    onSleep: async ({ end, done }) => {
      end.abort();
      await done;
    },
  };
  let entity: Entities<'wake'> | undefined;
  return spawn<() => void, 'look'>(
    parent,
    (close) => {
      if (placement.holds(placed, name)) entity?.tell(name, 'wake');
      return close;
    },
    {
      name: `${service}-${name}`,
      kind: 'singleton',
      initialStateFunc: (ctx) => {
        entity = placement.place(placed, entities(ctx.self, kind));
        ctx.every(LOOK_EVERY_MS, 'look');
        const look = () => dispatch(ctx.self, 'look');
        look();
        return placement.onAcquired(service, look);
      },
      afterStop: (close: (() => void) | undefined) => close?.(),
    },
  );
}
