/** What a mapping is looked at for: the proof that its name is its user's, and whether it still is. */

import { withTimeout } from '../../lib/waiting.ts';
import { audit } from '../../storage/audit.ts';
import {
  failMapping,
  lapseMapping,
  type MappingRow,
  mappingById,
  noteCheck,
  noteProof,
  setRecord,
  setZone,
} from '../../storage/network/mappings.ts';
import { append } from '../../storage/outbox.ts';
import { platformEntry } from '../service/audit.ts';
import { makeRecord } from './automation.ts';
import type { DnsView } from './certificate-deps.ts';
import {
  detailOf,
  EXPIRED,
  EXPIRY_MS,
  GRACE_MS,
  isProven,
  nextCheck,
  RECHECK_FAILED_MS,
  RECHECK_MS,
  RECHECK_UNPROVEN_MS,
} from './check-rules.ts';
import { failureOf, type HostnameProof, noticeOf, settle } from './claims.ts';
import type { NetworkDeps } from './deps.ts';
import { verifyName } from './hostname-rules.ts';
import type { WriteRight } from './placed.ts';

/** What a look at the world came to. */
type Look =
  | { readonly kind: 'verified' }
  /** The proof is there, but somebody else's was first, or the mapping has ended meanwhile. */
  | { readonly kind: 'taken' }
  /** `isConclusive`: the look could have found the proof. */
  | { readonly kind: 'unproven'; readonly detail: string; readonly isConclusive: boolean };

/** For finding the zone in the background. */
const ZONE_MS = 5000;

/** Looks at a mapping, and writes what it came to. */
export class MappingCheck {
  readonly #deps: NetworkDeps;
  readonly #right: WriteRight;

  constructor(deps: NetworkDeps, right: WriteRight) {
    this.#deps = deps;
    this.#right = right;
  }

  /** A look that was due: what it did not find is written down, and at the end of the time the mapping fails. */
  async check(row: MappingRow): Promise<void> {
    const { clock, log } = this.#deps;
    if (row.status === 'verified') return this.recheck(row);
    if (row.status !== 'pending') return;
    await this.findZone(row, ZONE_MS);
    const seen = await this.look(row);
    if (seen.kind !== 'unproven') return;
    const now = clock.now();
    // Not for our own resolvers being down: the next look decides.
    if (seen.isConclusive && now >= row.pendingSince.getTime() + EXPIRY_MS) {
      const why = `${EXPIRED}: ${seen.detail}`;
      await this.#right.tx(async (tx) => {
        if ((await failMapping(tx, row.id, why)) === undefined) return;
        await append(tx, failureOf(row, now, why));
      });
      log.info({ mappingId: row.id, hostname: row.hostname }, 'mapping failed');
      return;
    }
    const checks = row.checks + 1;
    const nextCheckAt = new Date(nextCheck(now, checks, row.pendingSince.getTime()));
    await this.#right.tx((tx) =>
      noteCheck(tx, row.id, { now: new Date(now), detail: seen.detail, checks, nextCheckAt }),
    );
  }

  /** Finds the zone that holds the hostname, unless it is known. Takes at most `withinMs`. */
  async findZone({ id, hostname, zone }: MappingRow, withinMs: number): Promise<void> {
    if (zone !== '') return;
    const found = await withTimeout(this.#deps.findZone(hostname), withinMs, () => undefined);
    if (found !== undefined) await this.#right.tx((tx) => setZone(tx, id, found));
  }

  /** Looks for the proof of a mapping that is pending or failed, and turns it verified when there is one. */
  async look(row: MappingRow): Promise<Look> {
    const made = await this.automate(row);
    if (made !== undefined && made.kind !== 'unproven') return made;
    const name = verifyName(row.hostname);
    const answers = await this.#deps.resolvers.lookup(name);
    if (isProven(answers, row.verifyToken)) return this.#verified(row, { by: 'txt' });
    const isConclusive = made?.isConclusive !== false && answers.some(({ answer }) => answer.kind !== 'failed');
    return { kind: 'unproven', detail: made?.detail ?? detailOf(name, row.verifyToken, answers), isConclusive };
  }

  /** Makes the record that is wanted at the DNS provider, which proves the mapping; undefined when none is wanted. */
  async automate(row: MappingRow): Promise<Look | undefined> {
    const { integration } = this.#deps;
    if (row.record !== 'wanted' || integration === undefined) return undefined;
    const made = await makeRecord(this.#deps, integration, row, this.#right);
    if ('recordId' in made) return this.#verified(row, { by: 'provider', record: made });
    if (made.kind === 'refused') await this.#right.tx((tx) => setRecord(tx, row.id, 'refused'));
    const instead = `; without it, ${toDo(row)}`;
    return { kind: 'unproven', detail: made.detail + instead, isConclusive: made.kind === 'refused' };
  }

  /** Looks whether the name of a verified mapping still is its user's: by the record, or since it leads here. */
  async recheck(row: MappingRow): Promise<void> {
    const { clock, resolvers, dns } = this.#deps;
    const name = verifyName(row.hostname);
    const answers = await resolvers.lookup(name);
    const isHere = isProven(answers, row.verifyToken) || (await leadsHere(dns, row.hostname));
    const now = clock.now();
    const noted = (unprovenSince: Date | null, detail: string, inMs: number) =>
      this.#right.tx((tx) =>
        noteProof(tx, row.id, { now: new Date(now), unprovenSince, detail, nextCheckAt: new Date(now + inMs) }),
      );
    if (isHere === true) return noted(null, '', RECHECK_MS);
    if (isHere === undefined || answers.every(({ answer }) => answer.kind === 'failed'))
      return noted(row.unprovenSince, row.detail, RECHECK_FAILED_MS);
    const since = row.unprovenSince ?? new Date(now);
    const end = new Date(since.getTime() + GRACE_MS);
    if (now < end.getTime()) {
      const detail =
        `${row.hostname} does not lead here any more, and its TXT record is gone: ${toDo(row)} before ` +
        `${end.toISOString()}, or the mapping ends.`;
      await this.#right.tx(async (tx) => {
        if (row.unprovenSince === null)
          await append(tx, noticeOf(row, now, `${row.hostname} is about to lapse`, detail));
        const nextCheckAt = new Date(now + RECHECK_UNPROVEN_MS);
        await noteProof(tx, row.id, { now: new Date(now), unprovenSince: since, detail, nextCheckAt });
      });
      return;
    }
    await this.#lapse(row, since);
  }

  /** Writes that a mapping is proven, unless somebody else's proof was first or it was changed during the look. */
  async #verified(row: MappingRow, proof: HostnameProof): Promise<Look> {
    const { db, clock, log } = this.#deps;
    const now = clock.now();
    const outcome = await this.#right.tx((tx) => settle(tx, row, proof, now));
    if (outcome === 'taken') return { kind: 'taken' };
    if (outcome === undefined)
      return { kind: (await mappingById(db, row.id))?.status === 'verified' ? 'verified' : 'taken' };
    log.info({ mappingId: row.id, hostname: row.hostname, by: proof.by }, 'mapping verified');
    return { kind: 'verified' };
  }

  /** Ends a mapping whose proof has been missing for too long. */
  async #lapse(row: MappingRow, since: Date): Promise<void> {
    const { clock, log } = this.#deps;
    const now = clock.now();
    const why = `its proof has been missing since ${since.toISOString()}: ${toDo(row)}, then verify it`;
    await this.#right.tx(async (tx) => {
      if ((await lapseMapping(tx, row.id, why)) === undefined) return;
      await audit(tx, platformEntry(row.userId, 'mapping.lapsed', row.id, { domain: row.hostname }));
      await append(
        tx,
        noticeOf(row, now, `${row.hostname} has lapsed`, `${row.hostname} is not served any more: ${why}.`),
      );
    });
    log.info({ mappingId: row.id, hostname: row.hostname }, 'mapping lapsed');
  }
}

/** What its user has to do to prove a name. */
export function toDo({ hostname, verifyToken }: MappingRow): string {
  return `make a TXT record ${verifyName(hostname)} with the value ${verifyToken}`;
}

/** Whether the hostname has an address that the ingress host has, too; undefined when that could not be found out. */
async function leadsHere({ find, ingressHost }: DnsView, hostname: string): Promise<boolean | undefined> {
  const there = await find(hostname);
  if (there.kind !== 'found') return there.kind === 'none' ? false : undefined;
  const here = await find(ingressHost);
  return here.kind === 'found' ? there.addresses.some((one) => here.addresses.includes(one)) : undefined;
}
