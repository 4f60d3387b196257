/** Timers of a cluster in one process, over a clock that can be handed in. The rules are the database's. */
import type { ShardLease } from '../../proto/ports/placement.ts';
import type { DueTimer, TimerName, TimerRow, TimerShards, TimerStore } from '../../proto/ports/timers.ts';
import { shardOf } from '../placement/shards.ts';
import type { MemoryLeases } from './memory-leases.ts';

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
