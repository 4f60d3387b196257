/**
 * From the endpoint table to requests: finds the endpoint, proves the caller, checks the scope, validates, asks the
 * service, and turns what comes back into a reply. Knows no endpoint by name.
 */
import { randomBytes } from 'node:crypto';
import { z } from 'zod';
import type { Authenticate, NeededScope } from '../../proto/auth/tokens.ts';
import type { AnyEndpoint, Call, Caller, Service } from '../../proto/endpoint.ts';
import { Refusal } from '../../proto/errors.ts';
import { type KeptAnswers, REPLAYED_HEADER } from '../../proto/kept-answers.ts';
import type {
  HttpAnswer,
  HttpHandler,
  HttpReply,
  HttpRequest,
  HttpServerOptions,
  UpgradeHandler,
} from '../../proto/ports/http.ts';
import type { Log } from '../../proto/ports/log.ts';
import { grants } from '../../proto/scopes.ts';
import { bearer, type CookieRule, cookieToken } from './authenticate.ts';
import { bytesReply } from './bytes.ts';
import { type ChangeLimit, NO_CHANGE_LIMIT } from './change-limit.ts';
import type { ClientAddress } from './client-address.ts';
import { isOwnPage } from './cors.ts';
import { Endings } from './endings.ts';
import { answeredBefore, answerOnce, type KeptKey, keyOf } from './once.ts';
import type { OpenStreams } from './open-streams.ts';
import { check, readJson, readQuery } from './read.ts';
import { jsonReply, refusalReply, withHeader } from './replies.ts';
import { RequestCall } from './request-call.ts';
import { router, UPGRADE } from './router.ts';
import { FORGET_SESSION, sessionCookie, sessionCookieToken, wantsCookie } from './session-cookie.ts';

/** A reply that begins a session. */
const withToken = z.looseObject({ token: z.string() });

/** Of a path that leads nowhere: otherwise a slip in it would look like something that is not there. */
const NO_PATH = { message: 'This service has no such path: /openapi.json lists those it has.' };

const NOT_BY_KEY =
  'A login by SSH key may not do this, which would outlast the key or changes how the account is secured: log in by ' +
  '`troupe login` or in the console.';

const EVENT_HEADERS: readonly (readonly [string, string])[] = [
  ['content-type', 'text/event-stream; charset=utf-8'],
  ['cache-control', 'no-store'],
  ['x-content-type-options', 'nosniff'],
  // Proxies that gather a response before they send it would keep events back.
  ['x-accel-buffering', 'no'],
];

/** Pages a service shows besides its table: path -> reply, made at each request. */
export type Pages = ReadonlyMap<string, Page>;

/** One of them. */
export interface Page {
  readonly reply: () => HttpReply | Promise<HttpReply>;
  /** Who may not see it, and why; without it everybody may. */
  readonly refuse?: (request: HttpRequest) => Refusal | undefined;
}

/** Runs the handling of a request as part of a trace. `traceparent`: what the request brought. */
export type RequestTrace = (
  endpoint: string,
  traceparent: string | undefined,
  run: () => Promise<HttpAnswer>,
) => Promise<HttpAnswer>;

interface ApiOptions {
  readonly service: Service;
  readonly authenticate: Authenticate;
  readonly streams: OpenStreams;
  readonly pages: Pages;
  /** The platform's domain, for endpoints that only its own pages may open. Without it, no page may. */
  readonly domain?: string;
  readonly log: Log;
  /**
   * Makes the body of a refusal plain text instead of JSON, unless the client prefers JSON. `endpoint`: its name, ''
   * for a path that leads nowhere.
   */
  readonly plainText?: (refusal: Refusal, endpoint: string) => string;
  /** Takes the token from a cookie, too, of programs and of the platform's own pages. */
  readonly cookie?: CookieRule;
  /** Who a request comes from; without it, the peer of its socket. */
  readonly clientAddress?: ClientAddress;
  /** Bounds how much a user changes; without it nothing does. */
  readonly changes?: ChangeLimit;
  /** Without it no key of a request counts. */
  readonly kept?: KeptAnswers;
  /** Without it no request is traced. */
  readonly trace?: RequestTrace | undefined;
  /** Told of every finished request, for metrics. */
  readonly onReply?: (endpoint: string, status: number) => void;
}

/** Makes the two handlers of a listener for one service. */
export function api(options: ApiOptions): Required<Pick<HttpServerOptions, 'onRequest' | 'onUpgrade' | 'onFault'>> {
  const { service, authenticate, streams, pages, log, onReply, trace, kept, changes = NO_CHANGE_LIMIT } = options;
  const clientAddress = options.clientAddress ?? ((request: HttpRequest) => request.remoteAddress);
  const find = router(service.endpoints);
  const prefix = randomBytes(4).toString('hex');
  let count = 0;
  const nextId = () => `${prefix}-${(count++).toString(36)}`;

  const ends = new Endings(options);

  const answer = async (
    endpoint: AnyEndpoint,
    params: Readonly<Record<string, string>>,
    request: HttpRequest,
    requestId: string,
  ) => {
    const since = streams.news;
    try {
      const proven = prove(endpoint, params, request, authenticate, options.cookie);
      // Each await costs a turn of the microtask queue: a known token and a call without a body go without.
      const caller = proven instanceof Promise ? await proven : proven;
      const body = endpoint.body === undefined ? undefined : check(endpoint.body, await readJson(request), 'body');
      const call = new RequestCall(endpoint, params, request, caller, body, requestId, clientAddress);
      if (endpoint.events) {
        if (service.follow === undefined) throw new Refusal('not_found');
        const events = await service.follow(endpoint, call);
        const scope = caller && neededScope(endpoint, params, caller);
        const source = caller === undefined ? events : streams.guardEvents(caller, scope, events, since);
        return ends.finish(endpoint.name, requestId, { status: 200, headers: EVENT_HEADERS, source });
      }
      if (endpoint.bytes) {
        const reply = await changes.run(endpoint, caller, () => transferred(service, endpoint, call, request));
        return ends.finish(endpoint.name, requestId, reply);
      }
      const key = keyOf(endpoint, request);
      if (key !== undefined && kept !== undefined)
        return await onceReply({ service, log, changes }, ends, request, endpoint, call, { kept, key });
      const value = await changes.run(endpoint, caller, () => service.call(endpoint, call));
      const status = endpoint.status ?? 200;
      onReply?.(endpoint.name, status);
      if (endpoint.session !== undefined) return sessionReply(endpoint, request, value, requestId, authenticate);
      return jsonReply(status, value, requestId);
    } catch (error) {
      return ends.fail(request, endpoint.name, requestId, error, endpoint.basic);
    }
  };

  const onRequest: HttpHandler = (request) => {
    const requestId = nextId();
    const page = request.method === 'GET' || request.method === 'HEAD' ? pages.get(request.path) : undefined;
    if (page !== undefined) {
      const refusal = page.refuse?.(request);
      if (refusal !== undefined) return ends.fail(request, request.path, requestId, refusal);
      return Promise.resolve()
        .then(page.reply)
        .then(
          (reply) => ends.finish(request.path, requestId, reply),
          (error) => ends.fail(request, request.path, requestId, error),
        );
    }
    const match = find(request.method, request.path);
    if (match === undefined) return ends.fail(request, '', requestId, new Refusal('not_found', NO_PATH));
    if ('allow' in match) return ends.notAllowed(request, requestId, match.allow);
    if (match.endpoint.socket)
      return ends.finish(match.endpoint.name, requestId, refusalReply(new Refusal('upgrade_required')));
    const run = () => answer(match.endpoint, match.params, request, requestId);
    return trace === undefined ? run() : trace(match.endpoint.name, request.header('traceparent'), run);
  };

  const onUpgrade: UpgradeHandler = async (request) => {
    const requestId = nextId();
    const match = find(UPGRADE, request.path);
    if (match === undefined || !('endpoint' in match)) {
      return ends.refuse(request, '', requestId, new Refusal('not_found', NO_PATH));
    }
    const { endpoint, params } = match;
    // Before anything else, and as a plain answer: pages of strangers are told nothing.
    if (endpoint.ownPages && !isOwnPage(request.header('origin'), options.domain)) {
      const stranger = new Refusal('forbidden', { message: 'Pages of this origin may not connect.' });
      return { refuse: ends.fail(request, endpoint.name, requestId, stranger) };
    }
    const since = streams.news;
    try {
      const caller = await prove(endpoint, params, request, authenticate);
      const accept = await service.connect(
        endpoint,
        new RequestCall(endpoint, params, request, caller, undefined, requestId, clientAddress),
      );
      onReply?.(endpoint.name, 101);
      if (caller === undefined) return { accept };
      return { accept, watch: streams.watchOf(caller, neededScope(endpoint, params, caller), since) };
    } catch (error) {
      return ends.refuse(request, endpoint.name, requestId, error);
    }
  };

  const onFault = (error: unknown) => log.error({ err: error }, 'the stream of a reply failed');
  return { onRequest, onUpgrade, onFault };
}

/** The reply of a request with an Idempotency-Key. */
async function onceReply(
  { service, log, changes }: Required<Pick<ApiOptions, 'service' | 'log' | 'changes'>>,
  ends: Endings,
  request: HttpRequest,
  endpoint: AnyEndpoint,
  call: RequestCall,
  by: KeptKey,
): Promise<HttpReply> {
  const options = { ...by, log, endpoint, call };
  let isAdmitted = false;
  // The limit comes first, so that what it refuses writes nothing. It holds up no answer that was given before.
  const once = changes.run(endpoint, call.caller, async (repeats) => {
    isAdmitted = true;
    const answer = await answerOnce(options, (place) => {
      call.place = place;
      return service.call(endpoint, call);
    });
    if (answer.isReplayed) repeats();
    return answer;
  });
  const { outcome, isReplayed } = await once.catch(async (error: unknown) => {
    const before = isAdmitted ? undefined : await answeredBefore(options);
    if (before === undefined) throw error;
    return before;
  });
  const { name, status = 200 } = endpoint;
  const reply =
    'value' in outcome
      ? ends.finish(name, call.requestId, jsonReply(status, outcome.value))
      : ends.fail(request, name, call.requestId, outcome.refused);
  return isReplayed ? withHeader(reply, REPLAYED_HEADER, 'true') : reply;
}

/**
 * Who calls, if the endpoint's access and scope let them; without a promise when the token is known. Refuses (or
 * rejects with) `unauthorized`, `forbidden`, `missing_scope`.
 */
function prove(
  endpoint: AnyEndpoint,
  params: Readonly<Record<string, string>>,
  request: HttpRequest,
  authenticate: Authenticate,
  cookie?: CookieRule,
): Caller | undefined | Promise<Caller | undefined> {
  if (endpoint.access === 'none') return endpoint.session === 'ends' ? ofCookie(request, authenticate) : undefined;
  const token =
    bearer(request.header('authorization')) ??
    (endpoint.socket || endpoint.events ? readQuery(request.query).token : undefined) ??
    tokenOfCookies(request, cookie);
  const proven = token === undefined ? undefined : authenticate(token);
  if (proven instanceof Promise) return proven.then((caller) => admit(endpoint, params, caller));
  return admit(endpoint, params, proven);
}

/**
 * The token in a cookie. That of the session comes first: browsers take it from the platform's own host alone, while a
 * container's page may set the other one for the whole domain.
 */
function tokenOfCookies(request: HttpRequest, cookie: CookieRule | undefined): string | undefined {
  return sessionCookieToken(request) ?? (cookie === undefined ? undefined : cookieToken(request, cookie));
}

/** Whose session the cookie holds, if it is one that counts. */
async function ofCookie(request: HttpRequest, authenticate: Authenticate): Promise<Caller | undefined> {
  const token = sessionCookieToken(request);
  const caller = token === undefined ? undefined : await authenticate(token);
  return caller?.kind === 'session' ? caller : undefined;
}

/** The reply of an endpoint that reads or writes bytes. */
async function transferred(
  service: Service,
  endpoint: AnyEndpoint,
  call: Call,
  request: HttpRequest,
): Promise<HttpAnswer> {
  if (service.transfer === undefined) throw new Refusal('not_found');
  const reply = await service.transfer(endpoint, call, request);
  return 'bytes' in reply ? bytesReply(reply) : jsonReply(endpoint.status ?? 200, reply.value);
}

/** The reply of an endpoint that begins or ends a session: a page that keeps it in the cookie gets no token. */
async function sessionReply(
  { session, status = 200 }: AnyEndpoint,
  request: HttpRequest,
  value: unknown,
  requestId: string,
  authenticate: Authenticate,
): Promise<HttpReply> {
  const plain = jsonReply(status, value, requestId);
  if (session === 'ends')
    return sessionCookieToken(request) === undefined ? plain : withHeader(plain, 'set-cookie', FORGET_SESSION);
  const { data } = wantsCookie(request) ? withToken.safeParse(value) : { data: undefined };
  if (data === undefined) return plain;
  const { token, ...rest } = data;
  const caller = await authenticate(token);
  if (caller === undefined) return plain;
  return withHeader(jsonReply(status, rest, requestId), 'set-cookie', sessionCookie(token, caller, Date.now()));
}

function admit(endpoint: AnyEndpoint, params: Readonly<Record<string, string>>, caller: Caller | undefined): Caller {
  // A challenge opens its one endpoint, and nothing else opens that.
  if (caller === undefined || (caller.kind === 'challenge') !== (endpoint.access === 'challenge'))
    throw new Refusal('unauthorized');
  if (caller.kind === 'challenge') return caller;
  if (caller.kind === 'session') {
    if (endpoint.access === 'admin' && !caller.isAdmin)
      throw new Refusal('forbidden', { message: 'Only the administrator may do this.' });
    if (endpoint.notByKey && caller.via === 'ssh_key') throw new Refusal('forbidden', { message: NOT_BY_KEY });
    return caller;
  }
  if (endpoint.access !== 'token')
    throw new Refusal('forbidden', { message: 'This needs a login: an API token does not open it.' });
  const scope = neededScope(endpoint, params, caller);
  if (scope !== undefined && !grants(caller.scopes ?? {}, scope.key, scope.action))
    throw new Refusal('missing_scope', { message: `forbidden: missing ${scope.key} scope` });
  return caller;
}

/** The scope an API token of `caller` needs for the endpoint; undefined when none is needed. */
function neededScope(
  endpoint: AnyEndpoint,
  params: Readonly<Record<string, string>>,
  caller: Caller,
): NeededScope | undefined {
  if (endpoint.scope === undefined) return undefined;
  return { key: endpoint.scope.key(caller.userId, params), action: endpoint.scope.action };
}
