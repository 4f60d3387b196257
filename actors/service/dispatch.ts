/**
 * How an endpoint's call reaches its actor and how the answer comes back: the same for every service. A refusal is an
 * answer; a fault is told to the asker as `internal` and then thrown on, so that the actor's supervisor sees it.
 */
import type { AnyEndpoint, Call, CallOf, Endpoint, ReplyOf } from '../../proto/endpoint.ts';
import { type ErrorCode, Refusal } from '../../proto/errors.ts';
import { EngineError } from '../../proto/ports/engine.ts';
import { isFenced } from '../../proto/ports/placement.ts';
import { StorageError } from '../../storage/db.ts';
import { ActorError, dispatch, type Ref } from '../../supervision/index.ts';
import { RemoteError } from '../../supervision/placement/index.ts';

/** How long a caller waits for an actor, ms. Longer than any handler takes that does not hang. */
export const ASK_TIMEOUT = 30_000;

/** What an actor answers to a call. */
export type Outcome = { readonly ok: unknown } | { readonly refused: Refusal };

/** A call on its way to an actor. */
export interface CallMessage {
  readonly type: 'call';
  readonly endpoint: AnyEndpoint;
  readonly call: Call;
  readonly replyTo: Ref<Outcome>;
}

/** A handler of one endpoint; `C` is what the actor hands to all of its handlers. */
export interface Handler<C> {
  readonly endpoint: AnyEndpoint;
  readonly run: (context: C, call: Call) => unknown;
}

/** Binds an endpoint to its handler. The types of call and reply are those of the endpoint's schemas. */
export function handler<E extends Endpoint, C>(
  endpoint: E,
  handler: (context: C, call: CallOf<E>) => ReplyOf<E> | Promise<ReplyOf<E>>,
): Handler<C> {
  return { endpoint, run: (context, call) => handler(context, callOf(endpoint, call)) };
}

/**
 * The call with the types of its endpoint. The one cast: the transport put it through exactly this endpoint's schemas.
 */
export function callOf<E extends Endpoint>(_endpoint: E, call: Call): CallOf<E> {
  return call as CallOf<E>;
}

/** How the log and the tree of actors name a message: a call by its endpoint. */
export function messageType(message: unknown): string | undefined {
  return isCall(message) ? `call ${message.endpoint.name}` : undefined;
}

function isCall(message: unknown): message is CallMessage {
  return typeof message === 'object' && message !== null && 'type' in message && message.type === 'call';
}

/** Handlers by endpoint name. */
export type Handlers<C> = ReadonlyMap<string, Handler<C>>;

/** Makes the table of one actor's handlers. */
export function handlers<C>(...list: readonly Handler<C>[]): Handlers<C> {
  return new Map(list.map((handler) => [handler.endpoint.name, handler]));
}

/**
 * Runs the handler of a call and answers it. Returns a promise only when the handler does. Rejects (after answering) on
 * a fault, never on a refusal.
 */
export function handleCall<C>(table: Handlers<C>, context: C, message: CallMessage): void | Promise<void> {
  const handler = table.get(message.endpoint.name);
  try {
    if (handler === undefined) throw new Error(`no handler for ${message.endpoint.name}`);
    const result = handler.run(context, message.call);
    if (result instanceof Promise) {
      return result.then(
        (ok) => dispatch(message.replyTo, { ok }),
        (error) => fail(message, error),
      );
    }
    dispatch(message.replyTo, { ok: result });
  } catch (error) {
    fail(message, error);
  }
}

function fail(message: CallMessage, error: unknown): void {
  // Nothing was written, and another node owns the entity: the call goes there.
  if (isFenced(error)) throw error;
  const refused = refusalOf(error);
  dispatch(message.replyTo, { refused });
  if (refused.code === 'internal') throw error;
}

/**
 * The refusal that tells an outsider about any error. A part that is down is `unavailable`, a fault of ours `internal`.
 */
export function refusalOf(error: unknown): Refusal {
  if (error instanceof Refusal) return error;
  if (isFenced(error)) return new Refusal('unavailable', { cause: error });
  if (isPassing(error, 'StorageError', StorageError, ['unavailable', 'timeout', 'conflict'])) {
    return new Refusal('unavailable', {
      message: 'The database is not available at the moment: try again soon.',
      cause: error,
    });
  }
  if (isPassing(error, 'EngineError', EngineError, ['unavailable'])) {
    return new Refusal('unavailable', {
      message: 'The container engine is not available at the moment: try again soon.',
      cause: error,
    });
  }
  if (error instanceof ActorError) {
    if (error.code === 'overloaded') return new Refusal('overloaded', { cause: error });
    if (error.code === 'not_found') return new Refusal('not_found', { cause: error });
    if (error.code === 'crashed') {
      // An actor that cannot wake because a part is down.
      const cause = refusalOf(error.cause);
      return cause.code === 'unavailable' ? cause : new Refusal('internal', { cause: error.cause ?? error });
    }
    return new Refusal('unavailable', { cause: error });
  }
  return new Refusal('internal', { cause: error });
}

/** Whether it is an error of that class with one of these codes, thrown here or on another node. */
function isPassing(
  error: unknown,
  name: string,
  type: typeof StorageError | typeof EngineError,
  codes: readonly string[],
): boolean {
  if (error instanceof RemoteError) return error.name === name && codes.includes(error.code ?? '');
  return error instanceof type && codes.includes(error.code);
}

/** Makes the message of a call for the actor that is asked. */
export function callMessage(endpoint: AnyEndpoint, call: Call): (replyTo: Ref<Outcome>) => CallMessage {
  return (replyTo) => ({ type: 'call', endpoint, call, replyTo });
}

/** The reply in the outcome of a call. Throws Refusal; `missing`, if given, when there is no such actor. */
export function replyOf(asked: Promise<Outcome>, missing?: ErrorCode): Promise<unknown> {
  if (missing === undefined) return asked.then(unwrap, refuse);
  return asked.then(unwrap, (error: unknown) =>
    refuse(error instanceof ActorError && error.code === 'not_found' ? new Refusal(missing, { cause: error }) : error),
  );
}

function refuse(error: unknown): never {
  throw refusalOf(error);
}

function unwrap(outcome: Outcome): unknown {
  if ('refused' in outcome) throw outcome.refused;
  return outcome.ok;
}

/** What was looked for. Throws the refusal when it is not there: `not_found`, unless it is another one. */
export function found<T>(value: T | undefined, refusal = () => new Refusal('not_found')): T {
  if (value === undefined) throw refusal();
  return value;
}

/** The caller of an endpoint whose access is not `none`: the transport has proven it. */
export function callerOf(call: Call) {
  if (call.caller === undefined) throw new Refusal('unauthorized');
  return call.caller;
}

/** The key under which the endpoint's actor is found: the caller's id, or a path parameter. */
export function actorKey(endpoint: AnyEndpoint, call: Call): string {
  const { actor } = endpoint;
  if (actor.key === 'none') return '';
  if (actor.key === 'caller') return callerOf(call).userId;
  const { params } = call;
  const value =
    typeof params === 'object' && params !== null
      ? Object.entries(params).find(([name]) => name === actor.param)?.[1]
      : '';
  return String(value ?? '');
}
