import type { Log } from '../../proto/ports/log.ts';
import type { FiredTimer } from '../../proto/ports/timers.ts';
import type { Ref } from '../common/ref.ts';
import type { Codec } from './codec.ts';
import type { PlacementNode } from './node.ts';
import type { NodeBus } from './node-options.ts';
import type { RefExchange } from './refs.ts';
import type { CauseCodec } from './wire.ts';

/** A kind of entity that is placed on the nodes of a service. */
export interface PlacedKind<Msg> {
  /** As in EntityKind, for example `compute/user`. */
  readonly kind: string;
  /** The role of the nodes that hold them. */
  readonly service: string;
  readonly codec: Codec<Msg>;
  /** What a timer of it (durable-timers.ts) tells it. It sends `done` once the timer need not come again. */
  timer?(timer: FiredTimer, done: Ref<'done'>): Msg;
}

/** What the entities of all kinds share on a node: the cluster. */
export interface ClusterContext {
  readonly node: PlacementNode;
  readonly refs: RefExchange;
  readonly bus: NodeBus;
  readonly log: Log;
  /** An ask without an answer is sent again after this, ms. */
  readonly resendMs: number;
  readonly causes: CauseCodec | undefined;
  nextAsk(): number;
  subject(node: string, verb: string): string;
  send(node: string, verb: string, data: Uint8Array): void;
  complain(node: string, error: unknown, message: string): void;
}
