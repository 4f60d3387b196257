/** SQL of the certificates of mapped hostnames, and of what is served of them. */
import type { KeyObject } from 'node:crypto';
import { z } from 'zod';
import type { CertificatePem, CertificateStore } from '../../proto/ports/acme.ts';
import type { Db, Queries } from '../db.ts';
import { columnsOf, orUndefined } from '../rows.ts';
import { open, SealError, seal } from '../seal.ts';
import { pendingChallenges } from './acme.ts';
import { isMapped, type OrderLease } from './certificate-orders.ts';

const serialRow = z.object({ serial: z.number(), now: z.date() });

const CHANNEL = 'certificates';

/** What the sealed key of a certificate is bound to. */
export const keyContext = (hostname: string, serial: number) => `certificates/${hostname}/${serial}/key`;

/** When a certificate is to be renewed. */
type RenewAt = (certificate: { notBefore: Date; notAfter: Date }, now: Date) => Date;

/** Stores a certificate, tells all gateways, gives the order back. False: another holds it, or the mapping is gone. */
export function storeCertificate(
  db: Db,
  lease: OrderLease,
  certificate: CertificatePem & { readonly notBefore: Date; readonly notAfter: Date },
  options: { readonly sealKey: KeyObject; readonly renewAt: RenewAt },
): Promise<boolean> {
  const { hostname, epoch } = lease;
  return db.tx(async (tx) => {
    if (!(await isMapped(tx, hostname))) return false;
    const row = await tx.one(
      serialRow,
      'select serial, clock_timestamp() as now from certificates where hostname = $1 and epoch = $2 for update',
      [hostname, epoch],
    );
    if (row === undefined) return false;
    const serial = row.serial + 1;
    const { cert, key, notBefore, notAfter } = certificate;
    await tx.run(
      `update certificates set chain = $2, key_sealed = $3, serial = $4, not_before = $5, not_after = $6, renew_at = $7,
         lease_until = null, order_url = null, order_key_sealed = null, attempts = 0, next_try = null,
         tried_at = null, last_code = null, last_problem = null, last_error = null
       where hostname = $1`,
      [
        hostname,
        cert,
        seal(options.sealKey, keyContext(hostname, serial), Buffer.from(key)),
        serial,
        notBefore,
        notAfter,
        options.renewAt({ notBefore, notAfter }, row.now),
      ],
    );
    await tx.run('delete from acme_challenges where hostname = $1', [hostname]);
    await tx.notify(CHANNEL, hostname);
    return true;
  });
}

/**
 * A certificate whose key does not open is of no use to anybody: another is ordered, and nothing is served until then.
 */
async function discardCertificate(db: Queries, hostname: string, sealKey: KeyObject): Promise<boolean> {
  const row = await servedRowOf(db, hostname);
  if (row === undefined || opens(sealKey, keyContext(hostname, row.serial), row.keySealed)) return false;
  const gone = await db.run(
    `update certificates set chain = null, key_sealed = null, not_before = null, not_after = null, renew_at = null
     where hostname = $1 and serial = $2`,
    [hostname, row.serial],
  );
  return gone === 1;
}

function opens(sealKey: KeyObject, context: string, sealed: Uint8Array): boolean {
  try {
    open(sealKey, context, sealed);
    return true;
  } catch {
    return false;
  }
}

const servedRow = z.object({ chain: z.string(), keySealed: z.instanceof(Buffer), serial: z.number() });

function servedRowOf(db: Queries, hostname: string): Promise<z.output<typeof servedRow> | undefined> {
  const served = `select ${columnsOf(servedRow)} from certificates where hostname = $1 and chain is not null`;
  return db.one(servedRow, served, [hostname]);
}

/** What is served for a hostname; undefined while there is none. Throws SealError when its key does not open. */
export async function servedCertificate(
  db: Queries,
  hostname: string,
  sealKey: KeyObject,
): Promise<CertificatePem | undefined> {
  const row = await servedRowOf(db, hostname);
  if (row === undefined) return undefined;
  return { cert: row.chain, key: open(sealKey, keyContext(hostname, row.serial), row.keySealed).toString() };
}

const statusRow = z.object({
  hostname: z.string(),
  notAfter: orUndefined(z.date()),
  isOrdering: z.boolean(),
  attempts: z.number(),
  nextTry: orUndefined(z.date()),
  code: orUndefined(z.string()),
  problem: orUndefined(z.string()),
  error: orUndefined(z.string()),
});

const STATUS = columnsOf(statusRow, {
  isOrdering: 'coalesce(lease_until > clock_timestamp(), false)',
  code: 'last_code',
  problem: 'last_problem',
  error: 'last_error',
});

/** How it stands with the certificate of a hostname. */
type CertificateStatus = z.output<typeof statusRow>;

/** How it stands with a hostname's certificate; undefined when none was ever ordered. */
export function certificateStatus(db: Queries, hostname: string): Promise<CertificateStatus | undefined> {
  return db.one(statusRow, `select ${STATUS} from certificates where hostname = $1`, [hostname]);
}

const countsRow = z.object({
  valid: z.number(),
  expired: z.number(),
  ordering: z.number(),
  failing: z.number(),
});

/** How many certificates are in which state; one may be in several. */
export async function certificateCounts(db: Queries): Promise<z.output<typeof countsRow>> {
  const row = await db.one(
    countsRow,
    `select count(*) filter (where not_after > clock_timestamp()) as valid,
       count(*) filter (where not_after <= clock_timestamp()) as expired,
       count(*) filter (where lease_until > clock_timestamp()) as ordering,
       count(*) filter (where last_error is not null) as failing from certificates`,
  );
  return row ?? { valid: 0, expired: 0, ordering: 0, failing: 0 };
}

/** Forgets certificates that are over and belong to no verified mapping, and challenges that nobody will ask for. */
export async function purgeCertificates(db: Queries): Promise<void> {
  // One that is still good is kept: whoever maps the name again would spend another of the few the authority gives.
  await db.run(
    `delete from certificates c where coalesce(not_after <= clock_timestamp(), true)
       and coalesce(lease_until <= clock_timestamp(), true)
       and not exists (select from domain_mappings m where m.domain = c.hostname and m.status = 'verified')`,
  );
  await db.run(`delete from acme_challenges where created_at < clock_timestamp() - interval '1 hour'`);
  await db.run(`delete from acme_shares where day < (clock_timestamp() at time zone 'UTC')::date - 7`);
}

/** Says for every verified mapping of which nothing is said yet that there is no certificate for it. */
export async function tellUncertified(db: Queries, detail: string): Promise<void> {
  await db.run(
    `update domain_mappings m set certificate_detail = $1 where status = 'verified' and certificate_detail <> $1
       and not exists (select from certificates c where c.hostname = m.domain and c.not_after > clock_timestamp())`,
    [detail],
  );
}

/**
 * The certificates of `db`, opened with `sealKey`. One whose key does not open (it was damaged, or sealed with a key
 * that is gone) is discarded when it is read, so that another is ordered.
 */
export function certificateStore(db: Db, sealKey: KeyObject): CertificateStore {
  return {
    read: async (hostname) => {
      try {
        return await servedCertificate(db, hostname, sealKey);
      } catch (error) {
        if (error instanceof SealError) await discardCertificate(db, hostname, sealKey).catch(() => {});
        throw error;
      }
    },
    challenges: (hostnames) => pendingChallenges(db, hostnames, sealKey),
    watch: (onReplaced) => db.listen(CHANNEL, onReplaced),
  };
}
