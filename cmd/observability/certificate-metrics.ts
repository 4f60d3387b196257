/** Numbers of certificates and of the account at their authority. No label holds a hostname: tenants choose those. */
import type { Registry } from 'prom-client';
import type { CertificateNumbers } from '../../actors/network/certificate-deps.ts';
import type { Db } from '../../storage/db.ts';
import { accountBudget } from '../../storage/network/acme.ts';
import { certificateCounts } from '../../storage/network/certificates.ts';
import { readMetric, readNumbers } from './read-metric.ts';

/** Makes them in `registry`; they are read when somebody asks. */
export function certificateMetrics(
  registry: Registry,
  { db, numbers, directoryUrl }: { db: Db; numbers: CertificateNumbers; directoryUrl: string | undefined },
): void {
  const states = 'Certificates of mapped hostnames: valid, expired, being ordered, and those whose last order failed';
  readMetric(registry, 'troupe_certificates', states, 'state', async () => Object.entries(await certificateCounts(db)));
  const orders = 'Orders of this process by how they ended';
  readMetric(registry, 'troupe_acme_orders_total', orders, 'outcome', () => [...numbers.outcomes]);
  if (directoryUrl === undefined) return;
  const number = readNumbers(registry, 'troupe_acme');
  number('budget', 'Orders that the account may place now', async () => (await accountBudget(db, directoryUrl)).left);
  number('hold_seconds', 'How long the authority has asked the account to wait from now on', async () => {
    const { holdUntil } = await accountBudget(db, directoryUrl);
    return holdUntil === undefined ? 0 : Math.max(0, (holdUntil.getTime() - Date.now()) / 1000);
  });
}
