/**
 * All clients of the monitor's streams. A new snapshot is told to each of them once; what a client has not read yet is replaced by what
 * is newer, so that nobody costs more than a few words of memory, however slow.
 */
import { Refusal } from '../../proto/errors.ts';
import type { MonitorDeps } from './deps.ts';
import type { Audience, Kind, Snapshots } from './snapshots.ts';

/** A client as the hub knows it. */
export interface Client {
  readonly audience: Audience;
  readonly userId: string;
  readonly kinds: readonly Kind[];
  /** Unix ms; Infinity: never. */
  readonly expiresAt: number;
  /** There is a new snapshot. */
  tell(kind: Kind): void;
  ping?(): void;
  end(reason: 'expired' | 'leaving'): void;
}

/** Clients that are told in one turn of the event loop. */
const SLICE = 500;
const TICK_MS = 1000;
const DEFAULT_PING_MS = 15_000;

export class Hub {
  readonly snapshots: Snapshots;
  readonly #deps: MonitorDeps;
  readonly #clients = new Set<Client>();
  readonly #ofUser = new Map<string, number>();
  #timer: NodeJS.Timeout | undefined;
  #pingedAt = performance.now();
  #isClosed = false;

  constructor(deps: MonitorDeps, snapshots: Snapshots) {
    this.#deps = deps;
    this.snapshots = snapshots;
  }

  get size(): number {
    return this.#clients.size;
  }

  /** Refuses `overloaded` when there are too many, of all or of one user, and `unavailable` while the service ends. */
  admit(userId: string): void {
    const { maxClients = 20_000, maxClientsOfUser = 1000 } = this.#deps;
    if (this.#isClosed) throw new Refusal('unavailable');
    if (this.#clients.size >= maxClients) throw new Refusal('overloaded');
    if ((this.#ofUser.get(userId) ?? 0) >= maxClientsOfUser)
      throw new Refusal('overloaded', { message: 'You have too many streams open.' });
  }

  add(client: Client): void {
    if (this.#isClosed) {
      client.end('leaving');
      return;
    }
    this.#clients.add(client);
    this.#ofUser.set(client.userId, (this.#ofUser.get(client.userId) ?? 0) + 1);
    this.#timer ??= setInterval(() => this.#tick(), TICK_MS);
  }

  remove(client: Client): void {
    if (!this.#clients.delete(client)) return;
    const left = (this.#ofUser.get(client.userId) ?? 1) - 1;
    if (left === 0) this.#ofUser.delete(client.userId);
    else this.#ofUser.set(client.userId, left);
    if (this.#clients.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  /** Tells all who want this kind, some at a time. */
  tell(kind: Kind): void {
    this.#each((client) => {
      if (client.kinds.includes(kind)) client.tell(kind);
    });
  }

  /** Ends all streams, and takes no more. */
  close(): void {
    this.#isClosed = true;
    for (const client of [...this.#clients]) client.end('leaving');
    clearInterval(this.#timer);
  }

  #each(work: (client: Client) => void): void {
    const clients = [...this.#clients];
    const step = (from: number) => {
      for (const client of clients.slice(from, from + SLICE)) if (this.#clients.has(client)) work(client);
      if (from + SLICE < clients.length) setImmediate(step, from + SLICE);
    };
    step(0);
  }

  #tick(): void {
    const now = this.#deps.clock.now();
    for (const client of this.#clients) if (client.expiresAt <= now) client.end('expired');
    if (performance.now() - this.#pingedAt < (this.#deps.pingMs ?? DEFAULT_PING_MS)) return;
    this.#pingedAt = performance.now();
    this.#each((client) => client.ping?.());
  }
}
