/**
 * The actor runtime. Verbs and handler shape are nact's; the engine, the bounds, the supervisors and the entities are
 * ours. What it promises: docs/engineering/runtime-semantics.md.
 */

export type { Log } from '../proto/ports/log.ts';
export { LATENCY_BOUNDS_MS } from './cell/latency.ts';
export type { Decision, Decisions } from './decisions.ts';
export { entities } from './entity/entities.ts';
export type { AskOptions, Entities, EntityContext, EntityKind } from './entity/entity-kind.ts';
export type { ClockTimer, Schedule, SystemClock } from './environment.ts';
export { ActorError, type ActorErrorCode, SpawnError, type SpawnErrorCode } from './errors.ts';
export { type ActorDetails, find, inspect, isEntity, release, reset } from './inspection.ts';
export { type AnyRef, Ref, type SystemRef } from './ref.ts';
export {
  type KindNumbers,
  type LatencyNumbers,
  latencies,
  type SystemNumbers,
  stats,
  type TreeNode,
  tree,
} from './stats.ts';
export type { ChildSpec, Restart, Strategy, SupervisedChild, SupervisorSpec } from './supervisor/child-spec.ts';
export {
  child,
  deleteChild,
  restartChild,
  type SupervisorRef,
  startChild,
  startSupervisor,
  terminateChild,
  whichChildren,
} from './supervisor/supervisor.ts';
export { start } from './system.ts';
export {
  currentTrace,
  isTraceparent,
  type Span,
  type SpanSubject,
  type Tracer,
  tracedLog,
  withTrace,
} from './tracing.ts';
export {
  type Backoff,
  type Cancel,
  type CommonOptions,
  type Context,
  type CrashContext,
  type DeadLetter,
  type Intensity,
  isFailure,
  type MailboxOptions,
  type MailboxPolicy,
  type QueryOptions,
  type SpawnOptions,
  type StatelessOptions,
  type StopReason,
  type SystemOptions,
} from './types.ts';
export { askSignal, dispatch, query, spawn, spawnStateless, stop, stopped } from './verbs.ts';
