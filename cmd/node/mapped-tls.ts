/**
 * TLS for mapped hostnames at the gateway: their certificates and pending challenges, out of storage
 * (docs/reference/certificates.md).
 */
import type { KeyObject } from 'node:crypto';
import type { Ending } from '../../proto/ports/ending.ts';
import type { Log } from '../../proto/ports/log.ts';
import type { Db } from '../../storage/db.ts';
import { pendingChallenges } from '../../storage/network/acme.ts';
import { discardCertificate, servedCertificate, watchCertificates } from '../../storage/network/certificates.ts';
import { SealError } from '../../storage/seal.ts';
import type { NameDecision } from '../../transports/gateway/listeners.ts';
import { PendingChallenges, ServedCertificates } from '../../transports/gateway/tls/served-certificates.ts';

/** Decides about mapped names. */
export interface MappedTls {
  /** What an ordinary client of a mapped hostname gets. */
  certificate(hostname: string): NameDecision | Promise<NameDecision>;
  /** What a certificate authority gets, for any name. */
  challenge(hostname: string): Promise<NameDecision>;
  close(): Promise<void>;
}

const NONE_YET = { refuse: 'internal_error' } as const;

/** Where no key opens certificates. */
export const NO_TLS: MappedTls = {
  certificate: () => NONE_YET,
  challenge: async () => 'refuse',
  close: async () => {},
};

/** Makes it. A certificate that is replaced is used from the next handshake on, on every gateway. */
export function mappedTls(db: Db, sealKey: KeyObject, log: Log): MappedTls {
  const served = new ServedCertificates((hostname) => servedCertificate(db, hostname, sealKey));
  const challenges = new PendingChallenges((hostnames) => pendingChallenges(db, hostnames, sealKey));
  const watching: Ending = watchCertificates(db, (hostname) => served.forget(hostname));
  const unreadable = (hostname: string) => (error: unknown) => {
    log.warn({ err: error, hostname }, 'a certificate could not be read');
    // Damaged, or sealed with a key that nobody has any more: no reading will help.
    if (error instanceof SealError) discardCertificate(db, hostname, sealKey).catch(() => {});
    return NONE_YET;
  };
  return {
    certificate: (hostname) => {
      const found = served.get(hostname);
      if (found instanceof Promise)
        return found.then((end) => (end === undefined ? NONE_YET : { end }), unreadable(hostname));
      return found === undefined ? NONE_YET : { end: found };
    },
    challenge: (hostname) =>
      challenges
        .get(hostname)
        .then((challenge) => (challenge === undefined ? 'refuse' : { challenge }), unreadable(hostname)),
    close: () => watching.close(),
  };
}
