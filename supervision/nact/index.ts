/**
 * nact's verbs and shapes on this runtime: code for nact 7 runs with another import. What differs:
 * docs/reference/nact.md.
 */
export type { Decision } from '../common/decisions.ts';
export type { JournalProps } from './journal.ts';
export { LogLevel, type LogMsg, type NactLogger as Logger } from './logger.ts';
export { type ConsoleProxy, configureLogging, type LoggingEngine, logNothing, logToConsole } from './logging.ts';
export type { NactSystem as ActorSystem } from './nact-system.ts';
export {
  configurePersistence,
  type PersistentActorContext,
  type PersistentActorFunc,
  type PersistentActorProps,
  type PersistentQueryProps,
  persistentQuery,
  spawnPersistent,
} from './persistence.ts';
export type {
  PersistedEvent,
  PersistedEventStream,
  PersistedSnapshot,
  PersistenceEngine,
} from './persistence-engine.ts';
export { ActorPath, type ActorSystemReference as ActorSystemRef, NactRef as Ref, Nobody } from './references.ts';
export { hour, hours, message, messages, millisecond, milliseconds, minute, minutes, second, seconds } from './time.ts';
export type {
  ActorContext,
  ActorContextWithMailbox,
  ActorFunc,
  ActorProps,
  StatelessActorFunc,
  StatelessActorProps,
  SupervisionContext,
} from './types.ts';
export { dispatch, type Plugin, query, spawn, spawnStateless, start, stop } from './verbs.ts';
