/**
 * All clients of the monitor's streams. A new snapshot is told to each of them once; what a client has not read yet is
 * replaced by what is newer, so that nobody costs more than a few words of memory, however slow.
 */
import { type AnyEndpoint, type Caller, expiryMs } from '../../proto/endpoint.ts';
import { Refusal } from '../../proto/errors.ts';
import { clusterEvents, clusterSocket, healthEvents } from '../../proto/monitor/endpoints.ts';
import type { Connections } from '../service/parts.ts';
import type { MonitorDeps } from './deps.ts';
import { type Audience, audienceOf, type Encoded, type SnapshotKind, type Snapshots } from './snapshots.ts';

/**
 * What is the same for all clients that came to one endpoint with one token: there are many clients and few of these.
 */
export interface Subscription {
  readonly broadcaster: Broadcaster;
  /** Has the actors of event streams. */
  readonly connections: Pick<Connections, 'ref'>;
  readonly audience: Audience;
  readonly userId: string;
  readonly kinds: readonly SnapshotKind[];
  /** Events wrapped in `{type, payload}`. */
  readonly isCombined: boolean;
  /** When it is to be ended, Unix ms. Infinity: never, since a socket's connection ends it with its token. */
  readonly expiresAt: number;
}

/** A client as the broadcaster knows it. */
export interface Client {
  readonly subscription: Subscription;
  /** Its place in the broadcaster's list; the broadcaster's own. -1: nowhere. */
  place: number;
  /** There is a new snapshot. */
  tell(kind: SnapshotKind): void;
  /** Shows that the stream lives. */
  ping(): void;
  /** Its token has expired, or the service ends. */
  end(): void;
}

/** Clients that are told in one turn of the event loop. */
const SLICE = 500;
const TICK_MS = 1000;
const DEFAULT_PING_MS = 15_000;

export class Broadcaster {
  readonly snapshots: Snapshots;
  readonly #deps: MonitorDeps;
  /** A list whose clients know their places weighs half of a set. */
  readonly #clients: Client[] = [];
  readonly #ofUser = new Map<string, number>();
  #timer: NodeJS.Timeout | undefined;
  #pingedAt = performance.now();
  #isClosed = false;

  constructor(deps: MonitorDeps, snapshots: Snapshots) {
    this.#deps = deps;
    this.snapshots = snapshots;
  }

  get size(): number {
    return this.#clients.length;
  }

  get numbers(): MonitorDeps['numbers'] {
    return this.#deps.numbers;
  }

  /** Refuses `overloaded` when there are too many, of all or of one user, and `unavailable` while the service ends. */
  admit(userId: string): void {
    const { maxClients = 20_000, maxClientsOfUser = 1000 } = this.#deps;
    if (this.#isClosed) throw new Refusal('unavailable');
    if (this.#clients.length >= maxClients) throw new Refusal('overloaded');
    if ((this.#ofUser.get(userId) ?? 0) >= maxClientsOfUser)
      throw new Refusal('overloaded', { message: 'You have too many streams open.' });
  }

  add(client: Client): void {
    if (this.#isClosed) {
      client.end();
      return;
    }
    client.place = this.#clients.length;
    this.#clients.push(client);
    const { userId } = client.subscription;
    this.#ofUser.set(userId, (this.#ofUser.get(userId) ?? 0) + 1);
    this.#timer ??= setInterval(() => this.#tick(), TICK_MS);
  }

  remove(client: Client): void {
    const clients = this.#clients;
    if (clients[client.place] !== client) return;
    const last = clients.pop();
    if (last !== undefined && last !== client) {
      clients[client.place] = last;
      last.place = client.place;
    }
    client.place = -1;
    const { userId } = client.subscription;
    const left = (this.#ofUser.get(userId) ?? 1) - 1;
    if (left === 0) this.#ofUser.delete(userId);
    else this.#ofUser.set(userId, left);
    if (clients.length > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  /** The bytes of the newest snapshot of a kind for a client that is about to be sent them. */
  encoded(kind: SnapshotKind, { audience }: Subscription): Encoded | undefined {
    const encoded = this.snapshots.encoded(kind, audience);
    if (encoded !== undefined) this.#deps.numbers.pushed += 1;
    return encoded;
  }

  /** Tells all who want this kind, some at a time. */
  tell(kind: SnapshotKind): void {
    this.#each((client) => {
      if (client.subscription.kinds.includes(kind)) client.tell(kind);
    });
  }

  /** Ends all streams, and takes no more. */
  close(): void {
    this.#isClosed = true;
    for (const client of [...this.#clients]) client.end();
    clearInterval(this.#timer);
  }

  #each(work: (client: Client) => void): void {
    const clients = [...this.#clients];
    const step = (from: number) => {
      const to = Math.min(from + SLICE, clients.length);
      for (let at = from; at < to; at++) {
        const client = clients[at];
        // Unless it left meanwhile.
        if (client !== undefined && client.place >= 0) work(client);
      }
      if (to < clients.length) setImmediate(step, to);
    };
    step(0);
  }

  #tick(): void {
    const now = this.#deps.clock.now();
    // A list of its own: who is ended leaves.
    const expired = this.#clients.filter(({ subscription }) => subscription.expiresAt <= now);
    for (const client of expired) client.end();
    if (performance.now() - this.#pingedAt < (this.#deps.pingMs ?? DEFAULT_PING_MS)) return;
    this.#pingedAt = performance.now();
    this.#each((client) => client.ping());
  }
}

/**
 * Gives the subscription of a caller at an endpoint: the same one while the caller is the same object, which it is as
 * long as its token is known.
 */
export function subscriptions(
  broadcaster: Broadcaster,
  connections: Pick<Connections, 'ref'>,
): (caller: Caller, endpoint: AnyEndpoint) => Subscription {
  const known = new WeakMap<Caller, Map<AnyEndpoint, Subscription>>();
  return (caller, endpoint) => {
    let ofCaller = known.get(caller);
    if (ofCaller === undefined) {
      ofCaller = new Map();
      known.set(caller, ofCaller);
    }
    let subscription = ofCaller.get(endpoint);
    if (subscription === undefined) {
      subscription = {
        broadcaster,
        connections,
        audience: audienceOf(caller),
        userId: caller.userId,
        kinds: kindsOf(endpoint),
        isCombined: endpoint.name === healthEvents.name,
        expiresAt: endpoint.socket ? Number.POSITIVE_INFINITY : expiryMs(caller),
      };
      ofCaller.set(endpoint, subscription);
    }
    return subscription;
  };
}

function kindsOf({ name }: AnyEndpoint): readonly SnapshotKind[] {
  if (name === healthEvents.name) return ['cluster', 'pods'];
  return name === clusterEvents.name || name === clusterSocket.name ? ['cluster'] : ['pods'];
}
