import { createRequire } from 'node:module';
import {
  type Context,
  type Decisions,
  dispatch,
  query,
  Ref,
  type SpawnOptions,
  spawn,
  spawnStateless,
  start,
  stop,
} from '../../supervision/index.ts';
import * as ourNact from '../../supervision/nact/index.ts';
import {
  type ActorEngine,
  type AnyEngineRef,
  conformance,
  type DecisionName,
  type EngineActor,
} from '../support/supervision/conformance.ts';

/** As much of nact as the suite uses; its own types are too loose to help. */
interface Nact {
  start(): AnyEngineRef;
  spawn(parent: AnyEngineRef, f: unknown, name: string, properties: object): AnyEngineRef;
  spawnStateless(parent: AnyEngineRef, f: unknown, name: string): AnyEngineRef;
  dispatch(ref: AnyEngineRef, msg: unknown): void;
  query(ref: AnyEngineRef, make: unknown, timeoutMs: number): Promise<unknown>;
  stop(ref: AnyEngineRef): void;
}

/** An engine with nact's shapes. */
function engineOf(name: string, nact: Nact): ActorEngine {
  return {
    name,
    start: () => nact.start(),
    spawn: <State, Msg>(parent: AnyEngineRef, actor: EngineActor<State, Msg>) => {
      const { name, handle, decide, ...properties } = actor;
      const onCrash = async (msg: Msg, error: unknown, ctx: Record<DecisionName, symbol>, child: unknown) =>
        ctx[(await decide?.(msg, error, child)) ?? 'stop'];
      return nact.spawn(parent, handle, name, { ...properties, onCrash });
    },
    spawnStateless: (parent, name, f) => nact.spawnStateless(parent, f, name),
    dispatch: nact.dispatch,
    query: nact.query,
    stop: nact.stop,
  };
}

const theirs: Nact = createRequire(import.meta.url)('nact');
const facade: Nact = ourNact;

conformance(engineOf('nact', theirs));
conformance(engineOf('troupe/nact', facade));

/** The suite's refs are opaque; ours are known by their class. */
function our<Msg>(ref: AnyEngineRef): Ref<Msg> {
  if (ref instanceof Ref) return ref;
  throw new TypeError('not one of our refs');
}

const ours: ActorEngine = {
  name: 'ours',
  start: () => start(),
  spawn: <State, Msg>(parent: AnyEngineRef, actor: EngineActor<State, Msg>) => {
    const { name, handle, decide, initialState, initialStateFunc, afterStop, shutdownAfter } = actor;
    const chosen = (ctx: Decisions, decision: DecisionName) => ctx[decision];
    const options: SpawnOptions<State, Msg> = {
      name,
      ...(initialState === undefined ? {} : { initialState }),
      ...(initialStateFunc === undefined ? {} : { initialStateFunc }),
      ...(shutdownAfter === undefined ? {} : { shutdownAfter }),
      ...(afterStop === undefined ? {} : { afterStop }),
      ...(decide === undefined
        ? {}
        : {
            onCrash: async (msg: Msg | undefined, error: unknown, ctx: Decisions, child: unknown) =>
              chosen(ctx, await decide(msg, error, child)),
          }),
    };
    return spawn(our<never>(parent), (state: State, msg: Msg, ctx: Context<Msg>) => handle(state, msg, ctx), options);
  },
  spawnStateless: <Msg>(parent: AnyEngineRef, name: string, f: (msg: Msg) => void | Promise<void>) =>
    spawnStateless(our<never>(parent), (msg: Msg) => f(msg), { name }),
  dispatch: (ref, msg) => dispatch(our<unknown>(ref), msg),
  query: (ref, make, timeoutMs) => query(our<unknown>(ref), make, timeoutMs),
  stop: (ref) => stop(our<never>(ref)),
};

conformance(ours);
