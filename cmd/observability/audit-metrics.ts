/**
 * How fast the audit trail grows: nothing but its age takes an entry away, so whoever watches the disk watches this.
 */
import { Gauge, type Registry } from 'prom-client';
import { auditGrowth } from '../../storage/audit.ts';
import type { Db } from '../../storage/db.ts';

/** Makes the number in `registry`; it is read when somebody asks. */
export function auditMetrics(registry: Registry, db: Db): void {
  new Gauge({
    name: 'troupe_audit_entries_last_hour',
    help: 'Entries that the audit trail got in the last hour, from all nodes',
    registers: [registry],
    async collect() {
      this.set((await auditGrowth(db)).entries);
    },
  });
}
