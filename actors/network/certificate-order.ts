/** One order, up to a certificate that all gateways serve, or a failure that is stored with the next try. */
import { X509Certificate } from 'node:crypto';
import { type CaAccount, CaError, type CertificateAuthority } from '../../proto/ports/acme.ts';
import {
  accountBudget,
  acmeAccount,
  addAcmeAccount,
  DAILY_SHARE,
  holdAccount,
  putChallenge,
  replaceAcmeAccount,
  setAcmeAccountUrl,
} from '../../storage/network/acme.ts';
import {
  failOrder,
  isMapped,
  noteOrder,
  type OrderLease,
  postponeOrder,
  releaseOrder,
  renewOrder,
  startOrder,
} from '../../storage/network/certificate-orders.ts';
import { certificateStatus, storeCertificate } from '../../storage/network/certificates.ts';
import { setCertificateDetail } from '../../storage/network/mappings.ts';
import { type CertificateDeps, countOutcome } from './certificate-deps.ts';
import {
  certificateDetail,
  concernsAccount,
  isGivenUp,
  leadsNowhere,
  NO_ADDRESS,
  renewAt,
  retryIn,
  whatToCheck,
} from './certificate-rules.ts';
import { registrableOf } from './hostname-rules.ts';
import type { WriteRight } from './placed.ts';

/** What a node leaves behind that dies is taken up within this and a look for what is due. */
const LEASE_MS = 10_000;
/** Who has used up a day's share is looked at again after this: not all at midnight. */
const SHARE_PAUSE_MS = 3_600_000;

/** Why an order ends without a failure of anybody: another node holds it, or its mapping is gone. */
class LostOrder extends Error {}

/**
 * Orders the certificate of `hostname` if it is due and nobody else does. `right`: to begin with it; then the order's
 * lease counts. Rejects only when storage does, and as `right`.
 */
export async function orderCertificate(
  deps: CertificateDeps,
  authority: CertificateAuthority,
  hostname: string,
  signal: AbortSignal,
  right: WriteRight,
): Promise<void> {
  const { db, sealKey, log, numbers } = deps;
  const { directoryUrl } = authority;
  const leaseMs = deps.leaseMs ?? LEASE_MS;
  if (await isNowhere(deps, hostname, right)) {
    await tellDetail(deps, authority, hostname);
    return;
  }
  const registrable = registrableOf(hostname);
  const lease = await startOrder(right, hostname, { directoryUrl, leaseMs, sealKey, registrable });
  if (lease === 'no_share') {
    const text =
      `As many certificates as one account gets in a day have been ordered for yours (${DAILY_SHARE.ofDomain} of ` +
      `new names below ${registrable}, ${DAILY_SHARE.ofUser} in all): the day ends at midnight UTC.`;
    await postponeOrder(right, hostname, { inMs: SHARE_PAUSE_MS, code: 'daily_share', text });
    await tellDetail(deps, authority, hostname);
    return;
  }
  if (typeof lease === 'string') {
    if (lease === 'no_budget' || lease === 'fresh') await tellDetail(deps, authority, hostname);
    return;
  }
  const lost = new AbortController();
  const ends = AbortSignal.any([signal, lost.signal]);
  let renewing = Promise.resolve();
  let lastRenewal = performance.now();
  const timer = setInterval(() => {
    renewing = renewOrder(db, lease, leaseMs).then(
      (isOurs) => {
        lastRenewal = performance.now();
        if (!isOurs) lost.abort(new LostOrder());
      },
      () => {
        // The lease may be another's by now: nothing is said to the authority without it.
        if (performance.now() - lastRenewal > leaseMs) lost.abort(new LostOrder());
      },
    );
  }, leaseMs / 4);
  try {
    await tellDetail(deps, authority, hostname);
    const key = lease.key ?? (await authority.newKey());
    const account = await accountAt(deps, authority, ends);
    const chain = await issue(deps, authority, lease, account, key, ends);
    const { validFromDate: notBefore, validToDate: notAfter } = datesOf(chain);
    const isStored = await storeCertificate(db, lease, { cert: chain, key, notBefore, notAfter }, { sealKey, renewAt });
    countOutcome(numbers, isStored ? 'issued' : 'unwanted');
    if (isStored) log.info({ hostname, notAfter }, 'certificate issued');
    else await releaseOrder(db, lease);
  } catch (error) {
    if (!(error instanceof CaError)) {
      // Stopped, unmapped, or storage is away: the order stays where it is, for whoever looks next.
      await releaseOrder(db, lease);
      if (ends.aborted || error instanceof LostOrder) return;
      throw error;
    }
    await failed(deps, authority, lease, error);
  } finally {
    clearInterval(timer);
    await renewing;
    await tellDetail(deps, authority, hostname);
  }
}

/** Whether the hostname has no address yet: an authority would count a failure. Stores that with the next look. */
async function isNowhere({ db, dns, log }: CertificateDeps, hostname: string, right: WriteRight): Promise<boolean> {
  if (dns === undefined || (await dns.find(hostname)).kind !== 'none') return false;
  const { attempts = 0 } = (await certificateStatus(db, hostname)) ?? {};
  const inMs = retryIn({ code: NO_ADDRESS }, attempts + 1, Math.random());
  const text = leadsNowhere(hostname, dns.ingressHost);
  if (await postponeOrder(right, hostname, { inMs, code: NO_ADDRESS, text })) log.info({ hostname, inMs }, text);
  return true;
}

/** Says in the mapping what its certificate waits for. */
async function tellDetail(
  { db }: CertificateDeps,
  { directoryUrl }: CertificateAuthority,
  hostname: string,
): Promise<void> {
  const [status, budget] = [await certificateStatus(db, hostname), await accountBudget(db, directoryUrl)];
  await setCertificateDetail(db, hostname, certificateDetail(status, budget, new Date()) ?? '');
}

async function issue(
  { db, sealKey }: CertificateDeps,
  authority: CertificateAuthority,
  lease: OrderLease,
  account: CaAccount,
  key: string,
  signal: AbortSignal,
): Promise<string> {
  const { hostname } = lease;
  try {
    return await authority.issue({
      account,
      hostname,
      key,
      signal,
      orderUrl: lease.key === undefined ? undefined : lease.orderUrl,
      onOrder: async (url) => {
        if (!(await noteOrder(db, lease, sealKey, { url, key }))) throw new LostOrder();
      },
      present: async (challenge) => {
        // The mapping may have gone since, and the name may be another's by now.
        if (!(await isMapped(db, hostname))) throw new LostOrder();
        await putChallenge(db, hostname, challenge, sealKey);
      },
    });
  } catch (error) {
    if (error instanceof CaError && error.code === 'no_account') {
      await replaceAcmeAccount(db, authority.directoryUrl, sealKey, account.url, await authority.newKey());
    }
    throw error;
  }
}

/** The account of this installation at the authority; made when it is first needed. */
async function accountAt(
  { db, log, sealKey }: CertificateDeps,
  authority: CertificateAuthority,
  signal: AbortSignal,
): Promise<CaAccount> {
  const { directoryUrl } = authority;
  let account = await acmeAccount(db, directoryUrl, sealKey);
  if (account === undefined) {
    // Of several nodes one key wins, and making an account twice with one key makes one account.
    await addAcmeAccount(db, directoryUrl, sealKey, await authority.newKey());
    account = await acmeAccount(db, directoryUrl, sealKey);
  }
  if (account?.key === undefined && account !== undefined) {
    log.warn({ directoryUrl }, 'the key of the account at the certificate authority does not open: another is made');
    await replaceAcmeAccount(db, directoryUrl, sealKey, account.url, await authority.newKey());
    account = await acmeAccount(db, directoryUrl, sealKey);
  }
  if (account?.key === undefined) throw new CaError('no_account', 'The account is gone');
  const { key } = account;
  if (account.url !== undefined) return { key, url: account.url };
  const url = await authority.register(key, signal);
  await setAcmeAccountUrl(db, directoryUrl, url);
  return { key, url };
}

async function failed(
  { db, dns, log, numbers, sealKey }: CertificateDeps,
  authority: CertificateAuthority,
  lease: OrderLease,
  error: CaError,
): Promise<void> {
  const { hostname } = lease;
  countOutcome(numbers, error.code);
  const attempts = lease.attempts + 1;
  const inMs = retryIn(error, attempts, Math.random());
  log.warn(
    { hostname, code: error.code, problem: error.problem, attempts, inMs, reason: error.message },
    'no certificate',
  );
  const isForAll = concernsAccount(error, hostname);
  if (isForAll) await holdAccount(db, authority.directoryUrl, inMs, error.message);
  const isOver = isGivenUp(error, attempts);
  if (isOver) await noteOrder(db, lease, sealKey, undefined);
  let text = error.message;
  if (error.code === 'stuck' && isOver) text += ', so it was given up: the next try places another';
  if (error.code === 'refused' && dns !== undefined) {
    const found = await Promise.all([dns.find(hostname), dns.find(dns.ingressHost)]);
    text = `${text.replace(/[.!?]?$/, '.')} ${whatToCheck(hostname, found[0], dns.ingressHost, found[1])}`;
  }
  await failOrder(db, lease, {
    inMs,
    code: error.code,
    problem: error.problem,
    text,
    counts: !isForAll,
  });
}

function datesOf(chain: string): { validFromDate: Date; validToDate: Date } {
  const leaf = new X509Certificate(chain);
  return { validFromDate: new Date(leaf.validFrom), validToDate: new Date(leaf.validTo) };
}
