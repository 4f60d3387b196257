/** How an actor of nact's shape is made of one of this runtime. */
import { DECISIONS, type Decision } from '../decisions.ts';
import type { AnyRef, SystemRef } from '../ref.ts';
import type { Context, CrashContext, SpawnOptions } from '../types.ts';
import * as runtime from '../verbs.ts';
import { NactSystem } from './nact-system.ts';
import {
  ActorReference,
  ActorSystemReference,
  type AnyNactRef,
  type NactEnvelope,
  type NactRef,
  NOBODY,
  referenceOf,
} from './references.ts';
import type { ActorContext, ActorContextWithMailbox, StatelessActorProps, SupervisionContext } from './types.ts';

/** What an actor does, with the types of its state and messages forgotten. */
interface ActorParts {
  readonly initialState?: unknown;
  initial?(context: ActorContext<unknown>): unknown;
  handle(context: ActorContext<unknown>, state: unknown, message: unknown): unknown;
  onCrash?(
    message: unknown,
    error: unknown,
    context: SupervisionContext<unknown>,
    child: NactRef<unknown> | undefined,
  ): Decision | Promise<Decision>;
  afterStop?(state: unknown, context: ActorContextWithMailbox<unknown>): void | Promise<void>;
}

interface SpawnPlace {
  readonly system: NactSystem;
  readonly parent: ActorReference | ActorSystemReference;
  readonly target: AnyRef | SystemRef;
}

/** The place under a ref. Throws TypeError for one that is neither an actor nor a system. */
export function placeUnder(ref: AnyNactRef): SpawnPlace {
  if (!(ref instanceof ActorReference) && !(ref instanceof ActorSystemReference)) {
    throw new TypeError('actors are spawned under an actor or a system');
  }
  const system = NactSystem.of(ref);
  return { system, parent: ref, target: ref instanceof ActorReference ? ActorReference.targetOf(ref) : system.root };
}

/** Makes an actor with state. Throws as `spawn` of this runtime. */
export function spawnActor(
  place: SpawnPlace,
  name: string | undefined,
  props: StatelessActorProps,
  { initialState, initial, handle, onCrash, afterStop }: ActorParts,
): ActorReference {
  const options: SpawnOptions<unknown, NactEnvelope> = {
    ...optionsOf(name, props),
    initialState,
    ...(initial && { initialStateFunc: (ctx) => initial(contextOf(place, ctx, NOBODY)) }),
    ...(onCrash && {
      onCrash: (envelope, error, ctx, child) => {
        const context = crashContextOf(place, ctx, envelope?.sender ?? NOBODY);
        return onCrash(envelope?.message, error, context, child && referenceOf(child));
      },
    }),
    ...(afterStop && {
      afterStop: (state, ctx) => afterStop(state, { ...contextOf(place, ctx, NOBODY), mailbox: [] }),
    }),
  };
  const target = runtime.spawn<unknown, NactEnvelope>(
    place.target,
    (state, { message, sender }, ctx) => handle(contextOf(place, ctx, sender), state, message),
    options,
  );
  return referenceOf(target) ?? new ActorReference(target, place.parent);
}

/** Options of this runtime for those of nact. A `shutdownAfter` of 0 is none. */
function optionsOf(name: string | undefined, { shutdownAfter, ...bounds }: StatelessActorProps) {
  return { ...bounds, ...(name ? { name } : {}), ...(shutdownAfter ? { shutdownAfter } : {}) };
}

/** What a handler is given. */
function contextOf(place: SpawnPlace, ctx: Context<NactEnvelope>, sender: NactRef<unknown>): ActorContext<unknown> {
  const self = referenceOf(ctx.self) ?? new ActorReference(ctx.self, place.parent);
  const children = new Map<string, NactRef<unknown>>();
  for (const [name, ref] of ctx.children) {
    const child = referenceOf(ref);
    if (child !== undefined) children.set(name, child);
  }
  const { parent, path, name } = self;
  return { parent, path, self, name, children, sender, log: place.system.loggerOf(self) };
}

function crashContextOf(
  place: SpawnPlace,
  ctx: CrashContext<NactEnvelope>,
  sender: NactRef<unknown>,
): SupervisionContext<unknown> {
  return { ...contextOf(place, ctx, sender), ...DECISIONS, mailbox: [...ctx.mailbox] };
}
