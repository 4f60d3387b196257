/** A service from its definition: who answers which endpoint, what its streams show, and its supervision tree. */
import { errorText } from '../../lib/errors.ts';
import type {
  AnyEndpoint,
  Call,
  Caller,
  CallOf,
  Endpoint,
  EventStream,
  Health,
  Service,
  ServiceName,
  TransferReply,
  Upload,
} from '../../proto/endpoint.ts';
import { Refusal } from '../../proto/errors.ts';
import type { SocketHandlers } from '../../proto/ports/http.ts';
import type { Db } from '../../storage/db.ts';
import type { SystemRef } from '../../supervision/index.ts';
import { callerOf, callOf } from './dispatch.ts';
import type { AnsweringPart } from './parts.ts';
import type { Placement } from './placement.ts';
import { type Parts, startParts } from './supervisor.ts';

/** Decides about one endpoint's streams before they open. */
interface StreamHandler<Stream> {
  readonly endpoint: AnyEndpoint;
  readonly open: (call: Call) => Stream | Promise<Stream>;
}

/** Binds an endpoint to what opens its streams: sockets or event streams. Throws Refusal when the answer is no. */
export function streamHandler<E extends Endpoint, Stream>(
  endpoint: E,
  open: (call: CallOf<E>, caller: Caller) => Stream | Promise<Stream>,
): StreamHandler<Stream> {
  return { endpoint, open: (call) => open(callOf(endpoint, call), callerOf(call)) };
}

/** Answers one endpoint's transfers. */
interface TransferHandler {
  readonly endpoint: AnyEndpoint;
  readonly run: (call: Call, upload: Upload) => Promise<TransferReply>;
}

/** Binds an endpoint to what answers its transfers. Throws Refusal when the answer is no. */
export function transferHandler<E extends Endpoint>(
  endpoint: E,
  run: (call: CallOf<E>, upload: Upload, caller: Caller) => Promise<TransferReply>,
): TransferHandler {
  return { endpoint, run: async (call, upload) => run(callOf(endpoint, call), upload, callerOf(call)) };
}

/** What a service is. */
interface ServiceDefinition {
  readonly name: ServiceName;
  /** Each is answered by the part whose kind its `actor` names, or opened by its stream handler. */
  readonly endpoints: readonly AnyEndpoint[];
  readonly db: Pick<Db, 'ping'>;
  /** In the order in which they start; they are stopped in reverse. */
  readonly parts: Parts;
  /** Where its entities are placed: other nodes hold them while it is down. */
  readonly placement?: Pick<Placement, 'setUp'> | undefined;
  readonly sockets?: readonly StreamHandler<SocketHandlers>[];
  readonly events?: readonly StreamHandler<EventStream>[];
  readonly transfers?: readonly TransferHandler[];
  /** Sentences for operators about what the service needs besides the database. */
  readonly problems?: () => readonly (string | undefined)[];
}

/**
 * Starts a service under `system`; it ends with it. Rejects when a part of it cannot start, and with TypeError when
 * nobody answers one of its endpoints.
 */
export async function startService(system: SystemRef, definition: ServiceDefinition): Promise<Required<Service>> {
  const { name, endpoints, db, parts, problems = () => [] } = definition;
  const answering = new Map(Object.values(parts).flatMap((part) => (isAnswering(part) ? [[part.kind, part]] : [])));
  const sockets = streamTable(definition.sockets);
  const events = streamTable(definition.events);
  const transfers = new Map((definition.transfers ?? []).map((handler) => [handler.endpoint.name, handler]));
  for (const endpoint of endpoints) {
    if (endpoint.bytes && !transfers.has(endpoint.name)) throw new TypeError(`nobody answers ${endpoint.name}`);
    // A transfer may ask no actor.
    if (endpoint.bytes && !answering.has(endpoint.actor.kind)) continue;
    const streams = endpoint.socket ? sockets : endpoint.events ? events : undefined;
    const part = answering.get(endpoint.actor.kind);
    const isAnswered = part !== undefined && (part.answers?.has(endpoint.name) ?? true);
    if (!(streams?.has(endpoint.name) ?? isAnswered)) throw new TypeError(`nobody answers ${endpoint.name}`);
  }
  const problem = await startParts(system, name, parts, (isUp) => definition.placement?.setUp(name, isUp));

  return {
    name,
    endpoints,
    // Not async: it carries every request, and each promise more is felt.
    call: (endpoint, call) => {
      const part = answering.get(endpoint.actor.kind);
      return part === undefined ? Promise.reject(new Refusal('not_found')) : part.call(endpoint, call);
    },
    connect: async (endpoint, call) => openStream(sockets, endpoint, call),
    follow: async (endpoint, call) => openStream(events, endpoint, call),
    transfer: async (endpoint, call, upload) => {
      const handler = transfers.get(endpoint.name);
      if (handler === undefined) throw new Refusal('not_found');
      return handler.run(call, upload);
    },
    health: async () => healthOf(problem(), await databaseProblem(db), ...problems()),
  };
}

function isAnswering(part: Parts[string]): part is AnsweringPart {
  return typeof part === 'object' && 'kind' in part && 'call' in part;
}

/** Stream handlers by endpoint name. */
type StreamTable<Stream> = ReadonlyMap<string, StreamHandler<Stream>>;

function streamTable<Stream>(list: readonly StreamHandler<Stream>[] = []): StreamTable<Stream> {
  return new Map(list.map((handler) => [handler.endpoint.name, handler]));
}

function openStream<Stream>(table: StreamTable<Stream>, { name }: AnyEndpoint, call: Call): Stream | Promise<Stream> {
  const handler = table.get(name);
  if (handler === undefined) throw new Refusal('not_found');
  return handler.open(call);
}

/** A sentence when the database does not answer, else undefined. */
async function databaseProblem(db: Pick<Db, 'ping'>): Promise<string | undefined> {
  try {
    await db.ping();
    return undefined;
  } catch (error) {
    return `database: ${errorText(error, 'it does not answer')}`;
  }
}

/** Well when there is no problem among those given. */
function healthOf(...problems: readonly (string | undefined)[]): Health {
  const present = problems.filter((problem) => problem !== undefined);
  return { ok: present.length === 0, problems: present };
}
