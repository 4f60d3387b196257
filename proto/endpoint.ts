/**
 * The definition of one endpoint, and the service that answers it. Routing, validation, authentication, scope checks,
 * refusals, /openapi.json and the coverage test are all made from these definitions; there are no hand-written routes.
 */
import type { Readable } from 'node:stream';
import type { z } from 'zod';
import type { ErrorCode } from './errors.ts';
import type { AnswerPlace } from './kept-answers.ts';
import type { ByteSource, SocketHandlers } from './ports/http.ts';
import type { Scopes } from './scopes.ts';

/** The services that have endpoints. */
export type ServiceName = 'auth' | 'compute' | 'network' | 'monitor' | 'notify';

/**
 * Who may call. `session`: a login; `token`: a login, or an API token with the scope; `admin`: the login of the
 * administrator; `challenge`: whoever gave the password and owes the second factor; `none`: anybody.
 */
type Access = 'none' | 'session' | 'token' | 'admin' | 'challenge';

/** Where a session begins. */
export interface SessionBirth {
  readonly issuedAt: number;
  /** A new password begins the user's next epoch, and ends the sessions of those before. */
  readonly epoch: number;
}

/**
 * What limits a session. `ssh_key`: it is of a login to the account by SSH key (`Endpoint.notByKey`). `device`: of a
 * program's login that an older session approved. Neither proves who is there (`isRecentLogin`).
 */
export type SessionVia = 'ssh_key' | 'device';

/** Who calls, as proven by the token. */
export interface Caller {
  readonly kind: 'session' | 'api_token' | 'challenge';
  readonly userId: string;
  readonly username: string;
  readonly isAdmin: boolean;
  /** The token's own id (`jti`). */
  readonly tokenId: string;
  /** Unix seconds; 0 when the token does not expire. */
  readonly expiresAt: number;
  /** Only for sessions and challenges: when it began (Unix seconds), and under which epoch of its user. */
  readonly session?: SessionBirth;
  /** Only for sessions whose login limits them. */
  readonly via?: SessionVia;
  /** Who acts in the place of this user: the administrator, whom the audit trail names. */
  readonly by?: { readonly userId: string; readonly username: string };
  /** Only for API tokens: what it may do now. */
  readonly scopes?: Scopes;
  /** Only for API tokens: the service account it belongs to, or null. */
  readonly serviceAccount?: { readonly id: string; readonly name: string } | null;
}

/** When a caller's token ends, Unix ms; Infinity: never. */
export function expiryMs({ expiresAt }: Caller): number {
  return expiresAt === 0 ? Number.POSITIVE_INFINITY : expiresAt * 1000;
}

/** How long a caller's token is good from `now` on (Unix ms), ms; Infinity: for ever. */
export function remainingMs(caller: Caller, now: number): number {
  return expiryMs(caller) - now;
}

/**
 * How the limit on changes treats an endpoint. `counted`: what a caller may do so often. `removal`: it stops, deletes,
 * closes or revokes, or changes the password, which no limit may keep an owner from. So a user who has nothing left to
 * remove must leave nothing by it: no audit entry, and no answer under an Idempotency-Key. `exempt`: it leaves nothing
 * that grows without bound.
 */
type RateLimit = 'counted' | 'removal' | 'exempt';

/** Which actor answers: an entity, keyed by the caller or a path parameter; without a key a pool or the only actor. */
type ActorAddress =
  | { readonly kind: string; readonly key: 'caller' }
  | { readonly kind: string; readonly key: 'param'; readonly param: string }
  | { readonly kind: string; readonly key: 'none' };

type Shape = z.ZodType | undefined;
type Out<S extends Shape> = S extends z.ZodType ? z.output<S> : undefined;
type In<S extends Shape> = S extends z.ZodType ? z.input<S> : undefined;

const METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'] as const;
type Method = (typeof METHODS)[number];

/** What is written down of one endpoint besides its name and where it is. */
interface EndpointDefinition<P extends Shape, Q extends Shape, B extends Shape, R extends Shape> {
  readonly service: ServiceName;
  readonly summary: string;
  readonly access: Access;
  /** Scope an API token needs; sessions skip it (5.3, rule 6). */
  readonly scope?: {
    readonly key: (uid: string, params: Readonly<Record<string, string>>) => string;
    readonly action: string;
  };
  readonly params?: P;
  readonly query?: Q;
  readonly body?: B;
  /** Schema of the reply; without it the reply has an empty body. For a socket, of its messages. */
  readonly reply?: R;
  readonly status?: 200 | 201 | 204;
  /** Refusals besides those that follow from access, scope and schemas. */
  readonly refuses?: readonly ErrorCode[];
  readonly actor: ActorAddress;
  /**
   * Refused to the session of a login by SSH key: what it makes outlives the key or may do more, or it changes what
   * secures the account. `test/auth/by-key.test.ts` lists what was decided for every endpoint of a session.
   */
  readonly notByKey?: true;
  /** A WebSocket: answered by an upgrade. The token may also come in the query (browsers cannot set headers there). */
  readonly socket?: true;
  /** Of browsers only pages of the platform's domain may connect (the Origin header); programs send none. */
  readonly ownPages?: true;
  /**
   * What it does to the session of a browser that keeps it in a cookie: its reply's `token` `begins` one, or it `ends`
   * the one that the cookie holds.
   */
  readonly session?: 'begins' | 'ends';
  /** Server-sent events: a stream without end; `reply` is an event's data. The token may also come in the query. */
  readonly events?: true;
  /** Bytes stream in its request or its reply: answered by `transfer`. `reply` is that of one without bytes. */
  readonly bytes?: true;
  /** HTTP Basic credentials are read and handed to the handler, which proves them (only `/v2/token`). */
  readonly basic?: true;
  /** Without it: `counted`, unless it only reads (GET) or asks for no login. Every removal says what it is. */
  readonly rateLimit?: RateLimit;
  /**
   * Whether a call changes nothing, so that one whose actor is lost with its node may be handled again elsewhere.
   * Default: whether the method is GET.
   */
  readonly safe?: boolean;
  /**
   * It makes something, and takes an Idempotency-Key: a request that is sent again gets the first answer. Its handler
   * keeps the answer in the transaction of what it makes (`keptReply`).
   */
  readonly idempotent?: 'key';
  /** Its `conflict` may name a TXT record, in header fields, with which it goes well. */
  readonly proves?: true;
  /** Query parameters that may come several times: their values are joined by a space. Of others the last counts. */
  readonly repeats?: readonly string[];
  /** Query parameters whose values come as a list, of one value as well. */
  readonly lists?: readonly string[];
}

/** What is known of one endpoint. */
export interface Endpoint<
  P extends Shape = Shape,
  Q extends Shape = Shape,
  B extends Shape = Shape,
  R extends Shape = Shape,
> extends EndpointDefinition<P, Q, B, R> {
  /** Unique; the operationId of /openapi.json and the name of its handler. */
  readonly name: string;
  readonly method: Method;
  /** With parameters in braces: `/compute/containers/{id}`. */
  readonly path: string;
}

/** An endpoint of which the types do not matter. */
export type AnyEndpoint = Endpoint;

/** Whether the limit on changes holds for a call of it. */
export function isRateLimited({ method, access, rateLimit = 'counted' }: AnyEndpoint): boolean {
  return method !== 'GET' && access !== 'none' && access !== 'challenge' && rateLimit === 'counted';
}

/** Whether a call of it may be handled twice. */
export function isSafe({ method, safe }: AnyEndpoint): boolean {
  return safe ?? method === 'GET';
}

/** A call as a handler receives it: validated, with its caller. */
export interface Call<P = unknown, Q = unknown, B = unknown> {
  /** Undefined when the endpoint's access is `none`, unless it ends a session: then whose, if a cookie tells. */
  readonly caller: Caller | undefined;
  readonly params: P;
  readonly query: Q;
  readonly body: B;
  /** Of endpoints that read them, if they were sent: not proven. */
  readonly basic?: { readonly username: string; readonly password: string } | undefined;
  /** Of event streams: the last event the client says it got. Not checked. */
  readonly lastEventId?: string | undefined;
  /** With an Idempotency-Key: where its answer is kept, in the transaction of what it makes. */
  readonly place?: AnswerPlace | undefined;
  /** Address of the client. */
  readonly address: string;
  /** Host and port that the client asked, as it wrote them: not checked. Does not cross nodes. */
  readonly host?: string | undefined;
  /** What the client says it is (the header User-Agent). */
  readonly userAgent?: string | undefined;
  /** Travels through actors and logs. */
  readonly requestId: string;
}

/** The call of an endpoint. */
export type CallOf<E> = E extends Endpoint<infer P, infer Q, infer B, infer _R> ? Call<Out<P>, Out<Q>, Out<B>> : never;

/** The reply of an endpoint. */
export type ReplyOf<E> = E extends Endpoint<infer _P, infer _Q, infer _B, infer R> ? In<R> : never;

/** Defines an endpoint, with its method before its path; the types of its handler follow from the schemas. */
export function endpoint<
  P extends Shape = undefined,
  Q extends Shape = undefined,
  B extends Shape = undefined,
  R extends Shape = undefined,
>(name: string, route: `${Method} /${string}`, definition: EndpointDefinition<P, Q, B, R>): Endpoint<P, Q, B, R> {
  const [first, path = ''] = route.split(' ');
  const method = METHODS.find((each) => each === first) ?? 'GET';
  return Object.freeze({ ...definition, name, method, path });
}

/** How a service is. `problems` are sentences for operators; empty when all is well. */
export interface Health {
  readonly ok: boolean;
  readonly problems: readonly string[];
}

/** A stream of server-sent events (WHATWG HTML, section 9.2). Ends when its reader leaves, or by `end`. */
export interface EventStream extends ByteSource {
  end(): void;
}

/** The request of a transfer. */
export interface Upload {
  /** A header's value by lower-case name. */
  header(name: string): string | undefined;
  /** The body as it comes; asked for once. */
  stream(): Readable;
  /** Aborted when the client leaves. */
  readonly signal: AbortSignal;
}

/** What a transfer is answered with: bytes, or a value that fits the endpoint's reply schema. */
export type TransferReply =
  | {
      readonly status: number;
      readonly headers: readonly (readonly [name: string, value: string])[];
      readonly bytes: Readable;
    }
  | { readonly value: unknown };

/** A running service. Both calls throw `Refusal` when the answer is no; any other error is a fault on our side. */
export interface Service {
  readonly name: ServiceName;
  readonly endpoints: readonly AnyEndpoint[];
  /** Answers a request. The result fits the endpoint's reply schema. */
  call(endpoint: AnyEndpoint, call: Call): Promise<unknown>;
  /** Decides about a WebSocket before the upgrade; what comes back owns the socket. */
  connect(endpoint: AnyEndpoint, call: Call): Promise<SocketHandlers>;
  /** Opens a stream of server-sent events; absent when the service has none. */
  follow?(endpoint: AnyEndpoint, call: Call): Promise<EventStream>;
  /** Answers a request whose bytes stream; absent when the service has none. */
  transfer?(endpoint: AnyEndpoint, call: Call, upload: Upload): Promise<TransferReply>;
  health(): Promise<Health>;
}
