/** How a hostname comes to a user: by a claim that holds it, and by a proof, to which claims of others give way. */
import { createHmac, type KeyObject } from 'node:crypto';
import { Refusal, type TxtProof } from '../../proto/errors.ts';
import { SAYS } from '../../proto/network/endpoints.ts';
import { notificationEvent } from '../../proto/notify/notification.ts';
import { audit } from '../../storage/audit.ts';
import type { Tx } from '../../storage/db.ts';
import {
  type ClaimTerms,
  type MappingRow,
  retryMapping,
  setRecord,
  verifyMapping,
} from '../../storage/network/mappings.ts';
import { append } from '../../storage/outbox.ts';
import { platformEntry } from '../service/audit.ts';
import { EXPIRED, EXPIRY_MS, nextCheck, RECHECK_MS } from './check-rules.ts';
import { verifyName } from './hostname-rules.ts';

/** What the user of a claim is told who was not the first to prove it. */
const LOST = 'another account proved that the name is theirs';

/** Bytes of a proof's value. */
const PROOF_BYTES = 24;

/**
 * The value of the TXT record by which a user proves a hostname: theirs alone, and the same whenever they claim it, so
 * that the record may be made before the claim. Nobody can tell it without the key.
 */
export function proofValue(key: KeyObject, userId: string, hostname: string): string {
  const mac = createHmac('sha256', key).update(`${userId}/${hostname}`).digest();
  return `svc-verify-${mac.subarray(0, PROOF_BYTES).toString('base64url')}`;
}

/** The TXT record that proves a mapping. */
export function proofOf({ hostname, verifyToken }: Pick<MappingRow, 'hostname' | 'verifyToken'>): TxtProof {
  return { name: verifyName(hostname), value: verifyToken };
}

/** The terms of a claim that begins at `now`. */
export function termsAt(now: number, isProven: boolean): ClaimTerms {
  return {
    now: new Date(now),
    nextCheckAt: new Date(nextCheck(now, 0, now)),
    expiredSince: new Date(now - EXPIRY_MS),
    isProven,
    says: { displaced: LOST, expired: EXPIRED },
  };
}

/** The refusal of a hostname that is verified, or claimed by the user already. */
export function taken(): Refusal {
  return new Refusal('conflict', { message: SAYS.taken });
}

/** The refusal of a hostname that another user's pending claim holds, until the proof is there. */
export function held(proof: TxtProof | undefined, retryAfter = 0): Refusal {
  return new Refusal('conflict', {
    message: SAYS.taken,
    ...(proof === undefined ? {} : { proof }),
    ...(retryAfter === 0 ? {} : { retryAfter }),
  });
}

/** Tells the users of claims that gave way to another, and writes down which were displaced. */
export async function tellEnded(tx: Tx, ended: readonly MappingRow[], now: number): Promise<void> {
  for (const row of ended) {
    const { id, userId, hostname } = row;
    if (now >= row.pendingSince.getTime() + EXPIRY_MS) {
      await append(tx, failureOf(row, now, EXPIRED));
      continue;
    }
    await append(tx, noticeOf(row, now, `${hostname} is somebody else's`, LOST));
    await audit(tx, platformEntry(userId, 'mapping.displaced', id, { domain: hostname }));
  }
}

/** How a mapping was proven, and the record at the DNS provider if that was it. */
export interface HostnameProof {
  readonly by: 'provider' | 'txt';
  readonly record?: { readonly kind: 'made' | 'found'; readonly recordId: string };
}

/**
 * Turns a mapping that is proven verified, ends the claims of others, and tells everybody. `taken`: somebody else's
 * proof was first; undefined: the mapping is neither pending nor failed.
 */
export async function settle(
  tx: Tx,
  row: MappingRow,
  { by, record }: HostnameProof,
  now: number,
): Promise<'verified' | 'taken' | undefined> {
  const { id, userId, hostname } = row;
  if (row.status === 'failed') {
    const again = await retryMapping(tx, row, termsAt(now, true));
    if (again === undefined || typeof again === 'string') return again === undefined ? undefined : 'taken';
    await tellEnded(tx, again.ended, now);
  }
  const nextCheckAt = by === 'txt' ? new Date(now + RECHECK_MS) : null;
  const outcome = await verifyMapping(tx, id, new Date(now), { lost: LOST, nextCheckAt });
  if (record !== undefined) await setRecord(tx, id, record);
  if (outcome === undefined) return undefined;
  await tellEnded(tx, outcome === 'taken' ? [row] : outcome.displaced, now);
  if (outcome === 'taken') return 'taken';
  await append(tx, noticeOf(row, now, `${hostname} is verified`, `${hostname} leads to your container.`));
  await audit(tx, platformEntry(userId, 'mapping.verified', id, { domain: hostname, by }));
  return 'verified';
}

/** What the user of a mapping is told. */
export function noticeOf({ userId }: Pick<MappingRow, 'userId'>, now: number, title: string, message: string) {
  // The page of the console that lists hostnames.
  const link = '/hostnames';
  return notificationEvent('network', now, { userId, title, message, link, category: 'networking', scope: '' });
}

/** That it was not verified in time. */
export function failureOf(row: MappingRow, now: number, why: string) {
  return noticeOf(row, now, `${row.hostname} could not be verified`, `${row.hostname} was ${why}.`);
}
