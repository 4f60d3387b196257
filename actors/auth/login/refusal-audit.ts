/** Entries about who was refused: strangers make them, so a node writes a bounded number. */
import type { Clock } from '../../../proto/ports/clock.ts';
import { type AuditEntry, audit } from '../../../storage/audit.ts';
import type { Queries } from '../../../storage/queries.ts';
import { BoundedAudit } from '../../service/bounded-audit.ts';

/** A node's: at most 14,400 a day, about 3 MB, however hard somebody tries. */
const BOUNDS = { burst: 100, everyMs: 6000 } as const;

/**
 * Makes what writes an entry while there is room for it, and else counts it. A block makes one when it begins; what it
 * refuses makes none.
 */
export function refusalAudit(db: Queries, clock: Clock): (entry: AuditEntry) => Promise<void> {
  const bounded = new BoundedAudit(clock, BOUNDS);
  return async (entry) => {
    const written = bounded.take(entry);
    if (written !== undefined) await audit(db, written);
  };
}
