/** What ordering certificates needs. */
import type { KeyObject } from 'node:crypto';
import type { NetworkNewsSource } from '../../proto/network/events.ts';
import type { CertificateAuthority } from '../../proto/ports/acme.ts';
import type { FindAddresses } from '../../proto/ports/dns.ts';
import type { Log } from '../../proto/ports/log.ts';
import type { Db } from '../../storage/db.ts';
import type { Placement } from '../service/placement.ts';

export interface CertificateDeps {
  readonly db: Db;
  /** Where orders are placed; undefined in a process that is no member of the cluster, which has its own. */
  readonly placement: Placement | undefined;
  readonly log: Log;
  readonly sealKey: KeyObject;
  /** Undefined: there is none, and nothing is ordered. */
  readonly authority: CertificateAuthority | undefined;
  /** Says when a mapping was verified or removed. */
  readonly news: NetworkNewsSource;
  readonly numbers: CertificateNumbers;
  /** Where hostnames lead, so that none is ordered for one that leads nowhere; undefined: nobody looks. */
  readonly dns?: DnsView | undefined;
  /** How long an order is held without a sign of life, ms. Default 10,000. */
  readonly leaseMs?: number;
  /** Between two looks for what is due, ms. Default 5,000. */
  readonly lookMs?: number;
}

/** DNS as it is seen from here. */
export interface DnsView {
  readonly find: FindAddresses;
  /** Where mapped hostnames are to lead. */
  readonly ingressHost: string;
}

/** Counted since the process began. */
export function certificateNumbers() {
  return { outcomes: new Map<string, number>() };
}

export type CertificateNumbers = ReturnType<typeof certificateNumbers>;

/** Counts how an order ended: `issued`, or the code of its failure. */
export function countOutcome({ outcomes }: CertificateNumbers, outcome: string): void {
  outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
}
