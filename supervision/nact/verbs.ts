/** nact's verbs. */
import { SpawnError } from '../common/errors.ts';
import type { Ref } from '../common/ref.ts';
import * as runtime from '../system/verbs.ts';
import { placeUnder, spawnActor } from './actor.ts';
import { NactSystem } from './nact-system.ts';
import {
  ActorReference,
  ActorSystemReference,
  type AnyNactRef,
  type NactEnvelope,
  type NactRef,
  NOBODY,
  sendTo,
  TemporaryReference,
} from './references.ts';
import type { ActorContext, ActorFunc, ActorProps, StatelessActorFunc, StatelessActorProps } from './types.ts';

/** Configures a system when it starts. */
export type Plugin = (system: NactSystem) => void;

/** Makes a system. First its name, alone or as `{ name }`, if it should have one; then plugins, called in order. */
export function start(
  first?: string | { readonly name?: string } | Plugin,
  ...rest: readonly Plugin[]
): ActorSystemReference {
  const system = new NactSystem(typeof first === 'string' ? first : first === undefined ? undefined : nameIn(first));
  try {
    if (typeof first === 'function') first(system);
    for (const plugin of rest) plugin(system);
  } catch (error) {
    stop(system.reference);
    throw error;
  }
  return system.reference;
}

function nameIn(given: { readonly name?: string } | Plugin): string | undefined {
  return typeof given === 'function' ? undefined : given.name;
}

/** Makes an actor under `parent`. Throws SpawnError for a name that is taken or a bad option, ActorError `stopped`. */
export function spawn<State, Msg>(
  parent: AnyNactRef,
  f: ActorFunc<State, Msg>,
  name?: string,
  properties: ActorProps<State, Msg> = {},
): NactRef<Msg> {
  const { initialState, initialStateFunc: initial, onCrash, afterStop, ...bounds } = properties;
  return spawnActor(placeUnder(parent), name, bounds, {
    initialState,
    ...(initial && { initial }),
    ...(onCrash && { onCrash }),
    ...(afterStop && { afterStop }),
    handle(context: ActorContext<Msg>, state: State, message: Msg) {
      return f.call(context, state, message, context);
    },
  });
}

/** Makes an actor without state. A throw loses that message only. */
export function spawnStateless<Msg>(
  parent: AnyNactRef,
  f: StatelessActorFunc<Msg>,
  name?: string,
  properties: StatelessActorProps = {},
): NactRef<Msg> {
  return spawnActor(placeUnder(parent), name, properties, {
    onCrash: (_message, _error, { resume }) => resume,
    handle(context: ActorContext<Msg>, _state: undefined, message: Msg) {
      return f.call(context, message, context);
    },
  });
}

/** Sends a message and does not wait. `sender` is what the handler finds as `ctx.sender`. */
export function dispatch<Msg>(actor: NactRef<Msg>, message: Msg, sender: AnyNactRef = NOBODY): void {
  sendTo(actor, message, sender);
}

/**
 * Sends a message, or the one that a function makes around the address of the asker, and waits at most `timeoutMs` for
 * an answer to `ctx.sender` or to that address. Rejects with ActorError. Throws SpawnError `invalid` without a timeout.
 */
export function query<Msg, Reply = unknown>(
  actor: NactRef<Msg>,
  message: Msg | ((asker: NactRef<Reply>) => Msg),
  timeoutMs: number,
): Promise<Reply> {
  if (!(timeoutMs > 0)) throw new SpawnError('invalid', 'a query needs a timeout in ms');
  if (!(actor instanceof ActorReference)) throw new TypeError('only actors are asked');
  const make = (asker: Ref<Reply>): NactEnvelope => {
    const sender = new TemporaryReference(asker, actor.system.name);
    return { message: isFactory(message) ? message(sender) : message, sender };
  };
  return runtime.query(ActorReference.targetOf(actor), make, timeoutMs);
}

function isFactory<Msg, Reply>(
  message: Msg | ((asker: NactRef<Reply>) => Msg),
): message is (asker: NactRef<Reply>) => Msg {
  return typeof message === 'function';
}

/** Begins the end of an actor or a system, and of all below it. */
export function stop(actor: AnyNactRef): void {
  if (actor instanceof ActorReference) runtime.stop(ActorReference.targetOf(actor));
  else if (actor instanceof ActorSystemReference) runtime.stop(NactSystem.of(actor).root);
}
