/** Connections to origins: kept alive, bounded, and never used again once anything unasked came over them. */
import type { UpstreamAddress } from '../../../proto/gateway/traffic.ts';
import { NOBODY, type Wire, type WireReader } from '../../wire/wire.ts';
import { dial } from '../tcp/dial.ts';
import { type Holder, type Place, type PlaceLimits, Places } from '../tcp/places.ts';
import type { BorrowedConnection, ResponseReader } from './exchange-sides.ts';
import { Pipes } from './pipes.ts';
import { HOLD_LIMITS, type HoldLimits, RestartingOrigins, UpstreamError } from './restarting-origins.ts';

export interface UpstreamLimits extends HoldLimits {
  /** Most connections to one origin that carry a request; past it, clients with fewer get those of others. */
  readonly maxPerOrigin: number;
  /** The same to a service of the platform: strangers must not fill it. */
  readonly maxPerService: number;
  /** Most of these of one client: an IPv4 address or an IPv6 /64. */
  readonly maxPerClient: number;
  /** Most connections to an origin that live on their own (upgraded, passed through), counted apart; and per client. */
  readonly maxLong: number;
  readonly maxLongPerClient: number;
  /** Most idle connections to one origin. */
  readonly maxIdle: number;
  /** How long an unused connection is kept, ms: less than what origins keep. */
  readonly idleMs: number;
  readonly connectMs: number;
}

export const UPSTREAM_LIMITS: UpstreamLimits = {
  maxPerOrigin: 1024,
  maxPerService: 8192,
  maxPerClient: 512,
  maxLong: 16_384,
  maxLongPerClient: 1000,
  maxIdle: 64,
  idleMs: 4000,
  connectMs: 5000,
  ...HOLD_LIMITS,
};

/** A connection lent whole. */
interface ExclusiveConnection extends BorrowedConnection {
  readonly own: Wire;
  outlives(): boolean;
}

/** Where a request goes: `isService`, to a service of the platform; `isContainer`, to a user's program. */
export interface Destination extends UpstreamAddress {
  readonly isService?: boolean;
  readonly isContainer?: boolean;
}

/** What one client has, as a share of what one site, an IPv6 /48, has. */
const SITE_SHARE = 2;

interface Origin {
  readonly key: string;
  readonly address: UpstreamAddress;
  /** Open or opening. */
  connections: number;
  /** When it took a connection or had ended an exchange last; -Infinity: it never did. */
  seenAt: number;
  /** Of connections in use or opening. */
  readonly places: Places;
  /** Of those that live on their own; made when there is one. */
  long: Places | undefined;
  /** The newest last: it is the least likely to be closed. */
  readonly idle: UpstreamConnection[];
  /** Undefined: it is asked one by one. */
  readonly pipes: Pipes | undefined;
}

/** Who has the connections that are pipes: everybody. */
const PIPES = 'pipes';

/** All connections to origins of one gateway. */
export class Upstreams {
  readonly #limits: UpstreamLimits;
  readonly #origins = new Map<string, Origin>();
  readonly #pipelined: ReadonlySet<string>;
  readonly #restarting: RestartingOrigins<ExclusiveConnection>;
  readonly #onRestart: (origin: UpstreamAddress) => void;
  readonly #sweep: NodeJS.Timeout;
  readonly #rested = (connection: UpstreamConnection) => this.#rest(connection);
  #closed = false;

  /**
   * `pipelined`: origins that are asked for several things at a time on one connection. `onRestart` hears of a
   * container whose program takes no connections any more, when the first request waits for it.
   */
  constructor(
    limits: Partial<UpstreamLimits> = {},
    pipelined: readonly UpstreamAddress[] = [],
    onRestart: (origin: UpstreamAddress) => void = () => {},
  ) {
    this.#onRestart = onRestart;
    this.#limits = { ...UPSTREAM_LIMITS, ...limits };
    this.#restarting = new RestartingOrigins(this.#limits);
    this.#pipelined = new Set(pipelined.map(keyOf));
    this.#sweep = setInterval(() => this.#expire(), 1000).unref();
  }

  /** An idle connection if there is one and `client` may have it, else undefined: then `open`. */
  reuse(address: Destination, client: string): ExclusiveConnection | undefined {
    const origin = this.#origins.get(keyOf(address));
    if (origin === undefined) return undefined;
    for (;;) {
      const found = origin.idle.pop();
      if (found === undefined) return undefined;
      // The origin may be about to end one that is older, and what it does not read may not be sent again.
      if (found.own.isWhole && found.since >= performance.now() - this.#limits.idleMs) {
        const place = origin.places.take(client, found);
        if (place !== undefined) return found.lend(client, place);
        origin.idle.push(found);
        return undefined;
      }
      found.own.destroy();
    }
  }

  /**
   * A place among others on one connection, for a request without a body that changes nothing; undefined when the
   * origin is asked one by one, or no place is free.
   */
  share(address: Destination): BorrowedConnection | undefined {
    if (this.#pipelined.size === 0 || !this.#pipelined.has(keyOf(address)) || this.#closed) return undefined;
    return this.#originOf(address).pipes?.enter();
  }

  /** Opens a connection for `client`. Rejects with UpstreamError. `signal` gives up. */
  open(address: Destination, client: string, signal?: AbortSignal): Promise<ExclusiveConnection> {
    const origin = this.#originOf(address);
    const tooMany = () => new UpstreamError('too_many', `There are too many connections to ${origin.key}.`);
    const place = this.#closed ? undefined : enter(origin, client);
    if (place === undefined) {
      this.#forget(origin);
      return Promise.reject(tooMany());
    }
    origin.connections++;
    return new Promise((resolve, reject) => {
      const giveUp = (error: UpstreamError) => {
        done();
        cancel();
        origin.places.leave(place);
        reject(error);
      };
      place.holder = { evict: () => giveUp(tooMany()) };
      const onAbort = () => giveUp(new UpstreamError('connect_failed', 'Nobody waits any more.'));
      const timer = setTimeout(
        () => giveUp(new UpstreamError('connect_timeout', `${origin.key} did not answer in time.`)),
        this.#limits.connectMs,
      );
      const done = () => {
        clearTimeout(timer);
        signal?.removeEventListener('abort', onAbort);
      };
      let connection: UpstreamConnection | undefined;
      const cancel = dial(address.host, address.port, {
        onOpen: (wire) => {
          done();
          origin.seenAt = performance.now();
          connection = new UpstreamConnection(origin, wire, this.#limits, this.#rested);
          place.holder = connection;
          resolve(connection.lend(client, place));
        },
        onError: (cause) =>
          giveUp(new UpstreamError('connect_failed', `${origin.key} does not take connections.`, { cause })),
        onClosed: () => {
          origin.connections--;
          connection?.returned();
          this.#forget(origin);
        },
      });
      if (signal?.aborted) onAbort();
      else signal?.addEventListener('abort', onAbort, { once: true });
    });
  }

  /** The program of the container at this host was just started: requests may wait until it takes connections. */
  expect(host: string): void {
    this.#restarting.expect(host);
  }

  /**
   * Whether a request may wait for this container, whose program has just refused a connection: it was started lately,
   * or took one lately, so that it may be starting again.
   */
  mayWait(address: Destination): boolean {
    const key = keyOf(address);
    const seenAt = this.#origins.get(key)?.seenAt ?? this.#restarting.lately.get(key) ?? Number.NEGATIVE_INFINITY;
    const isLately =
      performance.now() - Math.max(seenAt, this.#restarting.startedAt(address.host)) < this.#limits.holdMs;
    return address.isContainer === true && !this.#closed && (isLately || this.#restarting.has(key));
  }

  /**
   * Whether to ask a container's program again, which broke off before it answered: once, and, while it is known to be
   * starting, for as long as a request may wait. `brokeAt`: when it did so first; undefined: just now.
   */
  mayAskAgain({ host, isContainer }: Destination, brokeAt: number | undefined): boolean {
    if (isContainer !== true || brokeAt === undefined) return isContainer === true;
    const since = Math.min(brokeAt, this.#restarting.startedAt(host));
    return !this.#closed && performance.now() - since < this.#limits.holdMs;
  }

  /** As `open`, but waits while the container's program takes no connections. Rejects with UpstreamError. */
  openLater(address: Destination, client: string, signal: AbortSignal): Promise<ExclusiveConnection> {
    if (!this.#restarting.has(keyOf(address))) this.#onRestart(address);
    return this.#restarting.hold(keyOf(address), () => this.open(address, client, signal), signal);
  }

  /** How many connections there are to each origin, and how many of them are idle. */
  counts(): { readonly address: string; readonly connections: number; readonly idle: number }[] {
    return [...this.#origins.values()].map(({ key, connections, idle, pipes }) => ({
      address: key,
      connections,
      idle: idle.length + (pipes?.idle ?? 0),
    }));
  }

  /** Ends the idle connections; those that are lent end with their exchanges. */
  close(): void {
    this.#closed = true;
    clearInterval(this.#sweep);
    this.#restarting.close();
    for (const { idle, pipes } of this.#origins.values()) {
      for (const { own } of idle.splice(0)) own.destroy();
      pipes?.close();
    }
  }

  /** Takes a connection back whose exchange is over. */
  #rest(connection: UpstreamConnection): void {
    const { origin, own } = connection;
    if (this.#closed || own.isDestroyed || origin.idle.length >= this.#limits.maxIdle) {
      own.destroy();
      return;
    }
    connection.since = performance.now();
    origin.seenAt = connection.since;
    own.reader = connection;
    own.resume();
    origin.idle.push(connection);
  }

  #originOf(address: Destination): Origin {
    const key = keyOf(address);
    let origin = this.#origins.get(key);
    if (origin === undefined) {
      const pipes = this.#pipelined.has(key)
        ? new Pipes(() => this.open(address, PIPES).then(({ own }) => own))
        : undefined;
      const { maxPerService, maxPerOrigin, maxPerClient } = this.#limits;
      const places = new Places(limitsOf(address.isService === true ? maxPerService : maxPerOrigin, maxPerClient));
      const seenAt = this.#restarting.lately.get(key) ?? Number.NEGATIVE_INFINITY;
      this.#restarting.lately.delete(key);
      origin = { key, address, connections: 0, seenAt, places, long: undefined, idle: [], pipes };
      this.#origins.set(key, origin);
    }
    return origin;
  }

  #forget(origin: Origin): void {
    const dead = origin.idle.findIndex(({ own }) => own.isDestroyed);
    if (dead >= 0) origin.idle.splice(dead, 1);
    // Of the few with pipes it is remembered what they take.
    if (origin.connections > 0 || origin.pipes !== undefined || !this.#origins.delete(origin.key)) return;
    if (origin.seenAt > performance.now() - this.#limits.holdMs) this.#restarting.lately.set(origin.key, origin.seenAt);
  }

  #expire(): void {
    const now = performance.now();
    this.#restarting.expire();
    const before = now - this.#limits.idleMs;
    for (const origin of this.#origins.values()) {
      const { idle, pipes } = origin;
      while (idle[0] !== undefined && idle[0].since < before) idle.shift()?.own.destroy();
      pipes?.expire(before);
      this.#forget(origin);
    }
  }
}

function keyOf({ host, port }: UpstreamAddress): string {
  return `${host}:${port}`;
}

const UNHELD: Holder = { evict: () => {} };

function enter({ places }: Origin, client: string): Place | undefined {
  return client === PIPES ? places.takeUnnamed(UNHELD) : places.take(client, UNHELD);
}

function limitsOf(total: number, perNetwork: number): PlaceLimits {
  return { total, perNetwork, perSite: SITE_SHARE * perNetwork };
}

/** An open connection: lent to one exchange after the other, and hears the origin while it is idle. */
class UpstreamConnection implements ExclusiveConnection, WireReader, Holder {
  readonly origin: Origin;
  readonly own: Wire;
  /** When it became idle. */
  since = 0;
  isReused = false;
  isEvicted = false;
  /** Whom it is lent to, and the place that it takes; while it is lent. */
  #client = '';
  #place: Place | undefined;
  #isLong = false;
  readonly #limits: UpstreamLimits;
  readonly #rest: (connection: UpstreamConnection) => void;

  constructor(origin: Origin, wire: Wire, limits: UpstreamLimits, rest: (connection: UpstreamConnection) => void) {
    this.origin = origin;
    this.own = wire;
    this.#limits = limits;
    this.#rest = rest;
  }

  lend(client: string, place: Place): ExclusiveConnection {
    this.#client = client;
    this.#place = place;
    return this;
  }

  /** Somebody who has fewer gets its place. */
  evict(): void {
    this.isEvicted = true;
    this.own.destroy();
  }

  outlives(): boolean {
    if (this.#place === undefined || this.#isLong) return this.#isLong;
    const { origin } = this;
    const { maxLong, maxLongPerClient } = this.#limits;
    origin.long ??= new Places(limitsOf(maxLong, maxLongPerClient));
    const place = origin.long.take(this.#client, this);
    if (place === undefined) return false;
    origin.places.leave(this.#place);
    this.#place = place;
    this.#isLong = true;
    return true;
  }

  attach(reader: ResponseReader): void {
    this.own.reader = reader;
    this.own.resume();
  }

  detach(): void {
    this.own.reader = NOBODY;
  }

  write(head: string): void {
    this.own.write(head);
  }

  pause(): void {
    this.own.pause();
  }

  resume(): void {
    this.own.resume();
  }

  abandon(): boolean {
    return false;
  }

  distrust(): boolean {
    return false;
  }

  release(keep: boolean): void {
    if (!this.returned()) return;
    this.isReused = true;
    if (keep) this.#rest(this);
    else this.own.destroy();
  }

  /** Nobody has it any more; false when nobody had it. One that switched protocols is never given back, but closes. */
  returned(): boolean {
    const place = this.#place;
    if (place === undefined) return false;
    this.#place = undefined;
    (this.#isLong ? this.origin.long : this.origin.places)?.leave(place);
    return true;
  }

  /** Whatever comes unasked would be taken for the answer to the next request. */
  onData(): void {
    this.own.destroy();
  }

  onEnd(): void {
    this.own.destroy();
  }

  onDrain(): void {}

  onClose(): void {}
}
