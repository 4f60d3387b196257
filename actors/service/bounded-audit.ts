/** Entries of the audit trail that one account could make without end. */
import type { Clock } from '../../proto/ports/clock.ts';
import type { AuditEntry } from '../../storage/audit.ts';

/** How many entries may be written at once after a quiet time, and the time after which one more may, ms. */
interface AuditBounds {
  readonly burst: number;
  readonly everyMs: number;
}

/**
 * Lets entries through while there is room for them. Those left out are counted, and the next entry says how many
 * (`omitted`): the trail never hides that it is incomplete.
 */
export class BoundedAudit {
  readonly #clock: Clock;
  readonly #bounds: AuditBounds;
  #room: number;
  #refilledAt: number;
  #omitted = 0;

  constructor(clock: Clock, bounds: AuditBounds) {
    this.#clock = clock;
    this.#bounds = bounds;
    this.#room = bounds.burst;
    this.#refilledAt = clock.now();
  }

  /** The entry as it is to be written; undefined when it is left out. */
  take(entry: AuditEntry): AuditEntry | undefined {
    const now = this.#clock.now();
    const more = Math.max(0, (now - this.#refilledAt) / this.#bounds.everyMs);
    this.#room = Math.min(this.#bounds.burst, this.#room + more);
    this.#refilledAt = now;
    if (this.#room < 1) {
      this.#omitted++;
      return undefined;
    }
    this.#room--;
    const omitted = this.#omitted;
    this.#omitted = 0;
    return omitted === 0 ? entry : { ...entry, detail: { ...entry.detail, omitted } };
  }
}

/** Bounds for each of several things, as long as the things are there. */
export class BoundedAudits<K extends object> {
  readonly #clock: Clock;
  readonly #bounds: AuditBounds;
  readonly #each = new WeakMap<K, BoundedAudit>();

  constructor(clock: Clock, bounds: AuditBounds) {
    this.#clock = clock;
    this.#bounds = bounds;
  }

  /** The entry about `thing`, as BoundedAudit has it. */
  take(thing: K, entry: AuditEntry): AuditEntry | undefined {
    const bounded = this.#each.get(thing) ?? new BoundedAudit(this.#clock, this.#bounds);
    this.#each.set(thing, bounded);
    return bounded.take(entry);
  }
}
