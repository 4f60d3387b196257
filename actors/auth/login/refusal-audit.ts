/** Entries about who was refused: strangers make them, so a node writes a bounded number. */
import type { Clock } from '../../../proto/ports/clock.ts';
import { type AuditEntry, audit } from '../../../storage/audit.ts';
import type { Queries } from '../../../storage/queries.ts';
import { BoundedAudit } from '../../service/bounded-audit.ts';

/** A node's: at most 14,400 a day, about 3 MB, however hard somebody tries. */
const BOUNDS = { burst: 100, everyMs: 6000 } as const;

/** Writes entries while there is room for them. A block makes one when it begins; what it refuses makes none. */
export class RefusalAudit {
  readonly #db: Queries;
  readonly #bounded: BoundedAudit;

  constructor(db: Queries, clock: Clock) {
    this.#db = db;
    this.#bounded = new BoundedAudit(clock, BOUNDS);
  }

  /** Writes the entry, or counts it. */
  async write(entry: AuditEntry): Promise<void> {
    const written = this.#bounded.take(entry);
    if (written !== undefined) await audit(this.#db, written);
  }
}
