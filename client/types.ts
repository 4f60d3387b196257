/** What each endpoint takes and answers, from its schemas: types only, without a byte at run time. */
import type { Definitions, ENDPOINTS } from './generated/endpoints.ts';

type Kind<N extends keyof Definitions> = (typeof ENDPOINTS)[N];

/** Endpoints whose requests or replies are no JSON, and what to use in the place of `call`. */
interface NoJson {
  readonly readLogs: 'client.readLog()';
  readonly readFiles: "client.transfer('GET', path)";
  readonly writeFiles: "client.transfer('PUT', path, { body })";
  readonly useTools: 'a client of the Model Context Protocol';
}

/** Names of the endpoints that answer a request; sockets and event streams are followed instead. */
export type CallName = Exclude<
  { [N in keyof Definitions]: Kind<N> extends `WS ${string}` | `SSE ${string}` ? never : N }[keyof Definitions],
  keyof NoJson
>;

/** Whatever is written as the name of a call. */
export type WrittenName = CallName | keyof NoJson;

type Section = 'params' | 'query' | 'body';

/** A schema of a definition; never if it has none. */
type Schema<E, S extends Section | 'reply'> = E extends { readonly [P in S]?: unknown } ? NonNullable<E[S]> : never;
type InputOf<S> = S extends { readonly _zod: { readonly input: infer I } } ? I : never;
type OutputOf<S> = S extends { readonly _zod: { readonly output: infer O } } ? O : never;

/** The sections a call must have, and those it may leave out because all their fields have defaults. */
type Needed<E> = { [S in Section as Whether<InputOf<Schema<E, S>>, never, never, S>]: InputOf<Schema<E, S>> };
type Optional<E> = { [S in Section as Whether<InputOf<Schema<E, S>>, never, S, never>]?: InputOf<Schema<E, S>> };
/** One of three: there is no schema, all of it is optional, or some of it is needed. */
type Whether<I, None, Free, Bound> = [I] extends [never] ? None : Record<never, never> extends I ? Free : Bound;

/** What is sent with a call: `params` of the path, `query`, and `body`. */
export type CallInput<N extends WrittenName> = Needed<Definitions[N]> & Optional<Definitions[N]>;

/** What a call answers; undefined for an endpoint whose reply is empty. */
export type CallReply<N extends WrittenName> = [Schema<Definitions[N], 'reply'>] extends [never]
  ? undefined
  : OutputOf<Schema<Definitions[N], 'reply'>>;

/** The message of a socket. */
export type FollowedMessage<N extends keyof Definitions> = OutputOf<Schema<Definitions[N], 'reply'>>;

/** The input may be left out where nothing is needed. Without JSON nothing fits: the compiler says what to use. */
export type CallArguments<N extends WrittenName> = N extends keyof NoJson
  ? [input: { readonly useInstead: NoJson[N] }]
  : Record<never, never> extends CallInput<N>
    ? [input?: CallInput<N>, options?: CallControl]
    : [input: CallInput<N>, options?: CallControl];

/** How a call is made. */
export interface CallControl {
  /** Ends the call; it rejects with the code `cancelled`. */
  readonly signal?: AbortSignal;
  /** Of each attempt, ms. */
  readonly timeoutMs?: number;
  /**
   * Sent as Idempotency-Key, in place of one that is made for this call: for a call that the program itself may make
   * again, as after its own restart. Only endpoints that make something take one.
   */
  readonly idempotencyKey?: string;
}

/** A container, as lists show it. */
export type Container = CallReply<'listContainers'>['containers'][number];
/** A notification. */
export type UserNotification = CallReply<'listNotifications'>[number];
/** What was measured of the caller's containers. */
export type ContainerMetrics = CallReply<'podMetrics'>;
/** What was measured of the machines; for the administrator. */
export type MachineMetrics = CallReply<'nodeMetrics'>;
