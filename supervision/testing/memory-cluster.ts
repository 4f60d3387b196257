/** Leases of a cluster in one process, over a clock that can be handed in. The rules are the database's. */

import { BusError, type BusMessage } from '../../proto/ports/bus.ts';
import type { Ending } from '../../proto/ports/ending.ts';
import {
  type BeatResult,
  type Known,
  type LeaseStore,
  type NodeInfo,
  PlacementError,
  type Shard,
  type ShardLease,
  type ShardState,
} from '../../proto/ports/placement.ts';
import type { DueTimer, TimerName, TimerRow, TimerShards, TimerStore } from '../../proto/ports/timers.ts';
import type { NodeBus } from '../placement/node-options.ts';
import { shardOf } from '../placement/shards.ts';

interface Row extends ShardState {
  /** When it changed last, in changes of the store. */
  readonly changed: number;
}

export class MemoryLeases implements LeaseStore {
  readonly rows = new Map<string, Row>();
  readonly nodes = new Map<string, { readonly info: NodeInfo; readonly expiresAt: number }>();
  readonly #now: () => number;
  #count: number | undefined;
  #changes = 0;

  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  async beat(info: NodeInfo, ttlMs: number, known: Known): Promise<BeatResult> {
    this.nodes.set(info.id, { info, expiresAt: this.#now() + ttlMs });
    const others = [...this.nodes.values()]
      .filter((node) => node.info.id !== info.id && this.lives(node.info.id))
      .map((node) => node.info)
      .sort((a, b) => (a.id < b.id ? -1 : 1));
    const stamp = others.map(({ id, draining, roles, weight }) => `${id}${draining}${roles}${weight}`).join() || 'none';
    const since = known.mark === '' ? 0 : Number(known.mark);
    return {
      nodes: stamp === known.stamp ? undefined : others,
      stamp,
      shards: [...this.rows.values()]
        .filter(({ changed }) => changed > since)
        .map(({ service, shard, owner, epoch }) => ({ service, shard, owner, epoch })),
      mark: String(this.#changes),
    };
  }

  async take(nodeId: string, shards: readonly Shard[], count: number): Promise<ShardLease[]> {
    if (shards.length === 0) return [];
    if (this.#count !== undefined && this.#count !== count) {
      throw new PlacementError('mismatch', `cut into ${this.#count} shards, not ${count}`);
    }
    if (!this.lives(nodeId)) return [];
    this.#count = count;
    return shards.flatMap(({ service, shard }) => {
      const row = this.rows.get(`${service}/${shard}`);
      if (row?.owner !== undefined && row.owner !== nodeId && this.lives(row.owner)) return [];
      return [this.#set(service, shard, nodeId, row?.epoch ?? 0)];
    });
  }

  async release(nodeId: string, leases: readonly ShardLease[]): Promise<ShardLease[]> {
    for (const { service, shard, epoch } of leases) {
      const row = this.rows.get(`${service}/${shard}`);
      if (row?.owner === nodeId && row.epoch === epoch) this.#set(service, shard, undefined, epoch);
    }
    return [];
  }

  async leave(nodeId: string): Promise<void> {
    this.nodes.delete(nodeId);
    for (const row of this.rows.values()) {
      if (row.owner === nodeId) this.#set(row.service, row.shard, undefined, row.epoch);
    }
  }

  /** What a fenced write would find: throws like storage's `fence`. */
  fence({ service, shard, epoch }: ShardLease): void {
    const row = this.rows.get(`${service}/${shard}`);
    if (row?.epoch !== epoch || row.owner === undefined)
      throw new PlacementError('fenced', `${service}/${shard}@${epoch}`);
  }

  lives(nodeId: string): boolean {
    const node = this.nodes.get(nodeId);
    return node !== undefined && node.expiresAt > this.#now();
  }

  #set(service: string, shard: number, owner: string | undefined, epoch: number): ShardLease {
    this.#changes++;
    this.rows.set(`${service}/${shard}`, { service, shard, owner, epoch: epoch + 1, changed: this.#changes });
    return { service, shard, epoch: epoch + 1 };
  }
}

interface StoredTimer {
  readonly timer: TimerRow;
  readonly due: number;
  readonly tries: number;
}

export class MemoryTimers implements TimerStore {
  readonly rows = new Map<string, StoredTimer>();
  readonly #leases: Pick<MemoryLeases, 'fence'>;
  readonly #now: () => number;

  constructor(leases: Pick<MemoryLeases, 'fence'>, now: () => number = () => Date.now()) {
    this.#leases = leases;
    this.#now = now;
  }

  async set(lease: ShardLease, timer: TimerRow): Promise<void> {
    this.#leases.fence(lease);
    this.rows.set(keyOf(timer), { timer: structuredClone(timer), due: timer.at, tries: 0 });
  }

  async cancel(lease: ShardLease, timer: TimerName): Promise<void> {
    this.#leases.fence(lease);
    this.rows.delete(keyOf(timer));
  }

  async due(held: readonly TimerShards[], withinMs: number, limit: number): Promise<DueTimer[]> {
    const now = this.#now();
    const isOurs = ({ service, kind, id }: TimerRow): boolean =>
      held.some((of) => of.service === service && of.shards.includes(shardOf(kind, id, of.count)));
    return [...this.rows.values()]
      .filter(({ timer, due }) => due <= now + withinMs && isOurs(timer))
      .sort((a, b) => a.due - b.due)
      .slice(0, limit)
      .map(({ timer, due, tries }) => ({ ...structuredClone(timer), tries, inMs: due - now }));
  }

  async end(handled: readonly { readonly timer: TimerRow; readonly lease: ShardLease }[]): Promise<void> {
    for (const { timer, lease } of handled) {
      try {
        this.#leases.fence(lease);
      } catch {
        continue;
      }
      if (this.rows.get(keyOf(timer))?.timer.key === timer.key) this.rows.delete(keyOf(timer));
    }
  }

  async postpone(timer: TimerRow, ms: number): Promise<void> {
    const row = this.rows.get(keyOf(timer));
    if (row?.timer.key !== timer.key) return;
    this.rows.set(keyOf(timer), { timer: row.timer, due: this.#now() + ms, tries: row.tries + 1 });
  }
}

function keyOf({ kind, id, name }: TimerName): string {
  return JSON.stringify([kind, id, name]);
}

type Receive = (message: BusMessage) => void;

/** Delivers in order, each message in a microtask of its own. Every receiver gets a copy of the bytes. */
export class MemoryBus implements NodeBus {
  /** By subject; those of a subscription that ends with `>` by what comes before. */
  readonly #receivers = new Map<string, Set<Receive>>();
  #nextRequest = 1;

  publish(subject: string, data: Uint8Array): void {
    this.#send({ subject, data });
  }

  subscribe(subject: string, handler: Receive): Ending {
    const key = subject.replace(/>$/, '');
    const receivers = this.#receivers.get(key) ?? new Set();
    this.#receivers.set(key, receivers.add(handler));
    return {
      close: async () => {
        receivers.delete(handler);
        if (receivers.size === 0) this.#receivers.delete(key);
      },
    };
  }

  async request(subject: string, data: Uint8Array, timeoutMs: number): Promise<Uint8Array> {
    const reply = `reply.${this.#nextRequest++}`;
    let timer: NodeJS.Timeout | undefined;
    const answer = new Promise<Uint8Array>((resolve, reject) => {
      this.#receivers.set(reply, new Set([(message) => resolve(message.data)]));
      timer = setTimeout(() => reject(new BusError('timeout', `${subject} did not answer`)), timeoutMs);
    });
    try {
      if (!this.#send({ subject, data, reply })) throw new BusError('no_responders', `nobody receives ${subject}`);
      return await answer;
    } finally {
      clearTimeout(timer);
      this.#receivers.delete(reply);
    }
  }

  /** Whether anybody receives it. */
  #send(message: BusMessage): boolean {
    const { subject } = message;
    const keys = [subject, subject.slice(0, subject.lastIndexOf('.') + 1)];
    const receivers = keys.flatMap((key) => [...(this.#receivers.get(key) ?? [])]);
    for (const receive of receivers) queueMicrotask(() => receive({ ...message, data: message.data.slice() }));
    return receivers.length > 0;
  }
}
