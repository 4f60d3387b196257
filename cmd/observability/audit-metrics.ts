/**
 * How fast the audit trail grows: nothing but its age takes an entry away, so whoever watches the disk watches this.
 */
import type { Registry } from 'prom-client';
import { auditGrowth } from '../../storage/audit.ts';
import type { Db } from '../../storage/db.ts';
import { readNumbers } from './read-metric.ts';

/** Makes the number in `registry`; it is read when somebody asks. */
export function auditMetrics(registry: Registry, db: Db): void {
  const help = 'Entries that the audit trail got in the last hour, from all nodes';
  readNumbers(registry, 'troupe_audit')('entries_last_hour', help, async () => (await auditGrowth(db)).entries);
}
