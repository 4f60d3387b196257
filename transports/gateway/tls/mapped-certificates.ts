/** TLS for mapped hostnames: their certificates, and the challenges of authorities (docs/reference/certificates.md). */
import type { CertificateStore } from '../../../proto/ports/acme.ts';
import type { Ending } from '../../../proto/ports/ending.ts';
import type { Log } from '../../../proto/ports/log.ts';
import type { TlsDecision } from './front.ts';
import { PendingChallenges, ServedCertificates } from './served-certificates.ts';

const NONE_YET = { refuse: 'internal_error' } as const;
const REFUSE = { refuse: true } as const;

/** Reads certificates from a store when they are first asked for. A replaced one is used from the next handshake on. */
export class MappedCertificates {
  readonly #log: Log;
  readonly #served: ServedCertificates;
  readonly #challenges: PendingChallenges;
  readonly #watching: Ending;

  constructor(store: CertificateStore, log: Log) {
    this.#log = log;
    const served = new ServedCertificates((hostname) => store.read(hostname));
    this.#served = served;
    this.#challenges = new PendingChallenges((hostnames) => store.challenges(hostnames));
    this.#watching = store.watch((hostname) => served.forget(hostname));
  }

  /** What an ordinary client of a mapped hostname gets. Never rejects. */
  certificate(hostname: string): TlsDecision | Promise<TlsDecision> {
    const found = this.#served.get(hostname);
    if (!(found instanceof Promise)) return found === undefined ? NONE_YET : { end: found };
    return found.then(
      (end) => (end === undefined ? NONE_YET : { end }),
      (error) => this.#unreadable(hostname, error),
    );
  }

  /** What a certificate authority gets that checks `hostname`; any name may be asked for. Never rejects. */
  async challenge(hostname: string): Promise<TlsDecision> {
    try {
      const challenge = await this.#challenges.get(hostname);
      return challenge === undefined ? REFUSE : { challenge };
    } catch (error) {
      return this.#unreadable(hostname, error);
    }
  }

  close(): Promise<void> {
    return this.#watching.close();
  }

  #unreadable(hostname: string, error: unknown): TlsDecision {
    this.#log.warn({ err: error, hostname }, 'a certificate could not be read');
    return NONE_YET;
  }
}
