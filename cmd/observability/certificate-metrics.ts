/** Numbers of certificates and of the account at their authority. No label holds a hostname: tenants choose those. */
import { Counter, Gauge, type Registry } from 'prom-client';
import type { CertificateNumbers } from '../../actors/network/certificate-deps.ts';
import type { Db } from '../../storage/db.ts';
import { accountBudget } from '../../storage/network/acme.ts';
import { certificateCounts } from '../../storage/network/certificates.ts';

/** Makes them in `registry`; they are read when somebody asks. */
export function certificateMetrics(
  registry: Registry,
  { db, numbers, directoryUrl }: { db: Db; numbers: CertificateNumbers; directoryUrl: string | undefined },
): void {
  const registers = [registry];
  new Gauge({
    name: 'troupe_certificates',
    help: 'Certificates of mapped hostnames: valid, expired, being ordered, and those whose last order failed',
    labelNames: ['state'],
    registers,
    async collect() {
      for (const [state, count] of Object.entries(await certificateCounts(db))) this.set({ state }, count);
    },
  });
  new Counter({
    name: 'troupe_acme_orders_total',
    help: 'Orders of this process by how they ended',
    labelNames: ['outcome'],
    registers,
    collect() {
      this.reset();
      for (const [outcome, count] of numbers.outcomes) this.inc({ outcome }, count);
    },
  });
  if (directoryUrl === undefined) return;
  new Gauge({
    name: 'troupe_acme_budget',
    help: 'Orders that the account may place now',
    registers,
    async collect() {
      this.set((await accountBudget(db, directoryUrl)).left);
    },
  });
  new Gauge({
    name: 'troupe_acme_hold_seconds',
    help: 'How long the authority has asked the account to wait from now on',
    registers,
    async collect() {
      const { holdUntil } = await accountBudget(db, directoryUrl);
      this.set(holdUntil === undefined ? 0 : Math.max(0, (holdUntil.getTime() - Date.now()) / 1000));
    },
  });
}
