/**
 * The parts of a service, as the others reach them. A part can be handed around before its actor is started, and stays
 * the same when the supervisor starts the actor again.
 */
import { type AnyEndpoint, type Call, type Caller, isSafe, remainingMs } from '../../proto/endpoint.ts';
import { type ErrorCode, Refusal } from '../../proto/errors.ts';
import type { Clock } from '../../proto/ports/clock.ts';
import type { SocketHandlers } from '../../proto/ports/http.ts';
import {
  type AnyRef,
  type AskOptions,
  type Entities,
  type EntityKind,
  entities,
  query,
  type Ref,
  spawnStateless,
} from '../../supervision/index.ts';
import type { PlacedKind } from '../../supervision/placement/index.ts';
import { type Connection, connect } from './connection.ts';
import {
  ASK_TIMEOUT,
  actorKey,
  type CallMessage,
  callMessage,
  type Handlers,
  handleCall,
  replyOf,
} from './dispatch.ts';
import type { Placement } from './placement.ts';
import { connectionSupervisor, type Part } from './supervisor.ts';

/** A part that answers the calls of all endpoints whose actor is of its kind. */
export interface AnsweringPart extends Part {
  readonly kind: string;
  /** Names of the endpoints that it has handlers for; undefined for an actor that makes its own table. */
  readonly answers: Pick<Handlers<never>, 'has'> | undefined;
  /** Throws or rejects with Refusal; `unavailable` before the part is started. */
  call(endpoint: AnyEndpoint, call: Call): Promise<unknown>;
}

/** A kind of entities that take calls: `answers` are their handlers. */
export interface AnsweringKind<Msg, State> extends EntityKind<Msg, State> {
  readonly answers: Pick<Handlers<never>, 'has'>;
}

/** What a part knows of its kind; one without handlers answers no calls. */
interface KindOfPart {
  readonly kind: string;
  readonly answers?: AnsweringPart['answers'];
}

/** The entities of one kind. */
export class EntitiesPart<Msg> implements Part {
  readonly kind: string;
  readonly answers: AnsweringPart['answers'];
  readonly #open: (parent: AnyRef) => Entities<Msg>;
  readonly #missing: ErrorCode | undefined;
  #entities: Entities<Msg> | undefined;

  /** `missing`: how a call for an entity that does not exist is refused, if not by `not_found`. */
  constructor(kind: KindOfPart, open: (parent: AnyRef) => Entities<Msg>, missing?: ErrorCode) {
    this.kind = kind.kind;
    this.answers = kind.answers ?? new Set();
    this.#open = open;
    this.#missing = missing;
  }

  start(parent: AnyRef): AnyRef {
    this.#entities = this.#open(parent);
    return this.#entities.ref;
  }

  /** Entities awake on this node. */
  awake(): number {
    return this.#entities?.awake() ?? 0;
  }

  /** Sends without waiting; before the part is started the message is lost. */
  tell(id: string, message: Msg): void {
    this.#entities?.tell(id, message);
  }

  /** Asks and waits. Rejects with ActorError, and with Refusal `unavailable` before the part is started. */
  ask<Reply>(id: string, make: (replyTo: Ref<Reply>) => Msg, timeoutMs: number, options?: AskOptions): Promise<Reply> {
    return this.#entities?.ask(id, make, timeoutMs, options) ?? Promise.reject(new Refusal('unavailable'));
  }

  /** As an AnsweringPart, if its entities take calls. */
  call(this: EntitiesPart<CallMessage>, endpoint: AnyEndpoint, call: Call): Promise<unknown> {
    const key = actorKey(endpoint, call);
    const options: AskOptions = { isSafe: isSafe(endpoint) };
    return replyOf(this.ask(key, callMessage(endpoint, call), ASK_TIMEOUT, options), this.#missing);
  }
}

/** Entities that live in each process apart. */
export function localEntities<Msg, State>(kind: EntityKind<Msg, State>): EntitiesPart<Msg> {
  return new EntitiesPart<Msg>(kind, (parent) => entities(parent, kind));
}

/**
 * Entities of which each is awake on one node of the cluster. They are sent what `placed` says, and send themselves
 * `LocalMsg`. `missing`: see EntitiesPart.
 */
export function placedEntities<Msg, LocalMsg, State>(
  placement: Placement,
  placed: PlacedKind<Msg>,
  kind: EntityKind<NoInfer<Msg> | LocalMsg, State>,
  missing?: ErrorCode,
): EntitiesPart<Msg> {
  return new EntitiesPart<Msg>(kind, (parent) => placement.place(placed, entities(parent, kind)), missing);
}

/** One actor. */
export class ActorPart<Msg> implements Part {
  readonly kind: string;
  readonly answers: AnsweringPart['answers'];
  readonly #spawn: (parent: AnyRef) => Ref<Msg>;
  #ref: Ref<Msg> | undefined;

  constructor(kind: string, spawn: (parent: AnyRef) => Ref<Msg>, answers?: AnsweringPart['answers']) {
    this.kind = kind;
    this.answers = answers;
    this.#spawn = spawn;
  }

  start(parent: AnyRef): AnyRef {
    this.#ref = this.#spawn(parent);
    return this.#ref;
  }

  /** The actor. Throws Refusal `unavailable` before it is started. */
  get ref(): Ref<Msg> {
    if (this.#ref === undefined) throw new Refusal('unavailable');
    return this.#ref;
  }

  /** As an AnsweringPart, if the actor takes calls. */
  call(this: ActorPart<CallMessage>, endpoint: AnyEndpoint, call: Call): Promise<unknown> {
    return replyOf(query(this.ref, callMessage(endpoint, call), ASK_TIMEOUT));
  }
}

/** What a pool of handlers may do at once. */
interface PoolOptions {
  readonly name: string;
  readonly concurrency: number;
  /** Calls that wait; past it the answer is `overloaded`. */
  readonly queue: number;
}

/** Calls that are no entity's, answered where they were asked, several at once. */
export function pool(kind: string, table: Handlers<undefined>, { name, concurrency, queue }: PoolOptions) {
  const spawned = (parent: AnyRef) =>
    spawnStateless<CallMessage>(parent, (message) => handleCall(table, undefined, message), {
      name,
      kind,
      concurrency,
      mailbox: { capacity: queue, policy: 'reject' },
    });
  return new ActorPart<CallMessage>(kind, spawned, table);
}

/** The sockets of a service: each has an actor, which ends alone when it fails. */
export class Connections extends ActorPart<never> {
  readonly #clock: Clock;

  constructor(service: string, clock: Clock) {
    super(`${service}/connections`, (parent) => connectionSupervisor(parent, service, 'connections'));
    this.#clock = clock;
  }

  /** The handlers of a socket, which ends with its caller's token. Throws Refusal `unavailable`. */
  open<News>(kind: string, caller: Caller, connection: Connection<News>): SocketHandlers {
    return connect(this.ref, kind, remainingMs(caller, this.#clock.now()), connection);
  }
}
