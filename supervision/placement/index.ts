/** Entities on many nodes. What it promises: docs/engineering/placement.md. */
export { BusError, type BusErrorCode, type BusMessage } from '../../proto/ports/bus.ts';
export type { Ending } from '../../proto/ports/ending.ts';
export {
  type BeatResult,
  isFenced,
  type Known,
  type LeaseStore,
  type NodeInfo,
  type NodeSelf,
  PlacementError,
  type Shard,
  type ShardLease,
  type ShardState,
} from '../../proto/ports/placement.ts';
export type { DueTimer, FiredTimer, TimerName, TimerRow, TimerShards, TimerStore } from '../../proto/ports/timers.ts';
export { Cluster, type ClusterOptions } from './cluster.ts';
export { type Codec, field, type JsonValue as Wire, jsonCodec, type RefsIn, type RefsOut, toWire } from './codec.ts';
export type { DurableTimers, WantedTimer } from './durable-timers.ts';
export { type NodeBus, TIMINGS, type Timings, timingsOf } from './node-options.ts';
export type { PlacedKind } from './placed-kind.ts';
export { DEFAULT_SHARDS, shardOf } from './shards.ts';
export { type CauseCodec, RemoteError } from './wire.ts';
