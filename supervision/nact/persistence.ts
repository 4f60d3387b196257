/** Actors whose state is made of the messages that they persisted, as in nact. */

import { MAX_TIMER_MS } from '../cell/timer.ts';
import { DECISIONS, type Decision } from '../decisions.ts';
import { SpawnError } from '../errors.ts';
import { placeUnder, spawnActor } from './actor.ts';
import { Journal, type JournalProps, type PersistenceEngine } from './journal.ts';
import type { NactSystem } from './nact-system.ts';
import type { AnyNactRef, NactRef } from './references.ts';
import type { ActorContext, ActorFunc, ActorProps, SupervisionContext } from './types.ts';

/** Options of `spawnPersistent`. */
export interface PersistentActorProps<State, Msg> extends ActorProps<State, Msg>, JournalProps<State, Msg> {}

/** Options of `persistentQuery`. */
export interface PersistentQueryProps<State, Msg> extends JournalProps<State, Msg> {
  readonly initialState?: State;
  /** Where its snapshots are kept; needed with `snapshotEvery`. */
  readonly snapshotKey?: string;
  /** What was read is kept this long, ms, up to 24.8 days; then all is read again. Default: for ever. */
  readonly cacheDuration?: number;
}

/** What the handler of a persistent actor is given. */
export interface PersistentActorContext<in Msg> extends ActorContext<Msg> {
  /** Keeps a message: the handler gets it again when the actor starts anew. Resolves once it is kept. */
  persist(message: Msg, tags?: readonly string[], ...more: readonly unknown[]): Promise<void>;
  /** Set while a persisted message is handled once more, to make the state. */
  readonly recovering?: boolean;
}

/** A handler of `spawnPersistent`. */
export type PersistentActorFunc<State, Msg> = ActorFunc<State, Msg, PersistentActorContext<Msg>>;

/** A plugin of `start`: where persistent actors of the system keep their messages. */
export function configurePersistence(engine: PersistenceEngine): (system: NactSystem) => void {
  if (!engine) throw new SpawnError('invalid', 'persistence needs an engine');
  return (system) => {
    system.persistenceEngine = engine;
  };
}

/** A persisted message could not be handled again, and `onCrash` has said what becomes of the actor. */
class RecoveryCrash extends Error {
  readonly decision: Decision;

  constructor(decision: Decision, cause: unknown) {
    super('a persisted message could not be handled again', { cause });
    this.decision = decision;
  }
}

/**
 * Makes an actor whose handler persists messages with `ctx.persist`. At start, and at each reset, the handler gets them
 * again with `ctx.recovering`; other messages wait. Throws SpawnError `invalid` for a key that is none, or when the
 * system has no persistence engine; else as `spawn`.
 */
export function spawnPersistent<State, Msg>(
  parent: AnyNactRef,
  f: PersistentActorFunc<State, Msg>,
  key: string,
  name?: string,
  properties: PersistentActorProps<State, Msg> = {},
): NactRef<Msg> {
  const { initialState, initialStateFunc, onCrash, afterStop, ...rest } = properties;
  const { encoder, decoder, snapshotEncoder, snapshotDecoder, snapshotEvery, ...bounds } = rest;
  const place = placeUnder(parent);
  const journal = openJournal<State, Msg>(place.system, key, key, properties);
  const persist = (message: Msg, tags: readonly string[] = [], ...more: readonly unknown[]): Promise<void> =>
    journal.persist(message, tags, more);
  return spawnActor(place, name, bounds, {
    async initial(context: ActorContext<Msg>) {
      // The handler says what it makes of no state.
      const first = initialStateFunc === undefined ? (initialState as State) : await initialStateFunc(context);
      const again = { ...context, persist, recovering: true };
      return journal.readAll(first, async (state, message) => {
        try {
          return await f.call(again, state, message, again);
        } catch (error) {
          if (onCrash === undefined) throw error;
          const decision = await onCrash(message, error, { ...again, ...DECISIONS, mailbox: [] }, undefined);
          if (decision === DECISIONS.resume) return state;
          throw new RecoveryCrash(decision, error);
        }
      });
    },
    async handle(context: ActorContext<Msg>, state: State, message: Msg) {
      const persistent = { ...context, persist };
      const next = await f.call(persistent, state, message, persistent);
      journal.snapshotIfDue(next);
      return next;
    },
    ...(onCrash && {
      onCrash: (message: Msg | undefined, error, context: SupervisionContext<Msg>, child) =>
        error instanceof RecoveryCrash ? error.decision : onCrash(message, error, context, child),
    }),
    ...(afterStop && { afterStop }),
  });
}

/**
 * A function that makes a state of the messages that were persisted under a key. Each call reads what is new since the
 * one before; calls at once share one reading. Throws as `spawnPersistent`; the function rejects as the engine does.
 */
export function persistentQuery<State, Msg>(
  parent: AnyNactRef,
  f: (state: State, message: Msg) => State | Promise<State>,
  key: string,
  properties: PersistentQueryProps<State, Msg> = {},
): () => Promise<State> {
  const { snapshotKey, snapshotEvery } = properties;
  if (snapshotEvery && !snapshotKey) throw new SpawnError('invalid', 'snapshotEvery needs a snapshotKey');
  const cacheDuration = Math.min(numberOf(properties.cacheDuration, 'cacheDuration'), MAX_TIMER_MS);
  const journal = openJournal<State, Msg>(placeUnder(parent).system, key, snapshotKey, properties);
  let known: { readonly state: State } | undefined;
  let reading: Promise<State> | undefined;
  let expiry: NodeJS.Timeout | undefined;
  const forget = (): void => {
    known = undefined;
  };
  const read = async (): Promise<State> => {
    clearTimeout(expiry);
    try {
      const state =
        known === undefined
          ? await journal.readAll(properties.initialState as State, f)
          : await journal.readOn(known.state, f);
      known = { state };
      journal.snapshotIfDue(state);
      if (cacheDuration > 0) expiry = setTimeout(forget, cacheDuration).unref();
      return state;
    } catch (error) {
      forget();
      throw error;
    } finally {
      reading = undefined;
    }
  };
  return () => {
    reading ??= read();
    return reading;
  };
}

/** A number, or 0 where there is none; plain JavaScript may hand in anything. Throws SpawnError `invalid`. */
function numberOf(value: number | undefined, name: string): number {
  if (!value) return 0;
  if (typeof value === 'number') return value;
  throw new SpawnError('invalid', `${name} is a number`);
}

function openJournal<State, Msg>(
  system: NactSystem,
  key: string,
  snapshotKey: string | undefined,
  props: JournalProps<State, Msg>,
): Journal<State, Msg> {
  if (typeof key !== 'string' || key === '') throw new SpawnError('invalid', 'a persistence key is a text');
  if (snapshotKey && typeof snapshotKey !== 'string') throw new SpawnError('invalid', 'snapshotKey is a text');
  numberOf(props.snapshotEvery, 'snapshotEvery');
  const engine = system.persistenceEngine;
  if (engine === undefined) throw new SpawnError('invalid', 'the system was started without configurePersistence');
  return new Journal(engine, key, snapshotKey, props, system.loggerOf(system.reference));
}
