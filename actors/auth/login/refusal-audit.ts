/** Puts refused passwords and blocks into the audit trail, without letting a flood fill it. */
import type { Clock } from '../../../proto/ports/clock.ts';
import { type AuditEntry, audit } from '../../../storage/audit.ts';
import type { Queries } from '../../../storage/queries.ts';

/** Entries written at once at most, after a quiet time. */
const BURST = 100;
/** One more is allowed every so many ms: at most 14,400 a day and node, about 3 MB, however hard somebody tries. */
const REFILL_MS = 6000;

/**
 * Writes entries while there is room for them. Those left out are counted, and the next entry says how many
 * (`omitted`): the trail never hides that it is incomplete. Refusals by the throttle make no entry at all; a block
 * makes one when it begins.
 */
export class RefusalAudit {
  readonly #db: Queries;
  readonly #clock: Clock;
  #room = BURST;
  #refilledAt: number;
  #omitted = 0;

  constructor(db: Queries, clock: Clock) {
    this.#db = db;
    this.#clock = clock;
    this.#refilledAt = clock.now();
  }

  /** Writes the entry, or counts it. */
  async write(entry: AuditEntry): Promise<void> {
    const now = this.#clock.now();
    const more = Math.max(0, (now - this.#refilledAt) / REFILL_MS);
    this.#room = Math.min(BURST, this.#room + more);
    this.#refilledAt = now;
    if (this.#room < 1) {
      this.#omitted++;
      return;
    }
    this.#room--;
    const omitted = this.#omitted;
    this.#omitted = 0;
    await audit(this.#db, omitted === 0 ? entry : { ...entry, detail: { ...entry.detail, omitted } });
  }
}
