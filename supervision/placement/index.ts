/** Entities on many nodes. What it promises: docs/engineering/placement.md. */
export { Cluster, type ClusterOptions } from './cluster.ts';
export { type Codec, field, type JsonValue as Wire, jsonCodec, type RefsIn, type RefsOut, toWire } from './codec.ts';
export { TIMINGS, type Timings } from './node-options.ts';
export type { PlacedKind } from './placed-entities.ts';
export { DEFAULT_SHARDS, shardOf } from './shards.ts';
export { RemoteError } from './wire.ts';
