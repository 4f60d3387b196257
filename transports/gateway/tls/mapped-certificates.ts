/** TLS for mapped hostnames: their certificates, and the challenges of authorities (docs/reference/certificates.md). */
import { createSecureContext, type SecureContext } from 'node:tls';
import { LRUCache } from 'lru-cache';
import type { CertificatePem, CertificateStore } from '../../../proto/ports/acme.ts';
import type { Ending } from '../../../proto/ports/ending.ts';
import type { Log } from '../../../proto/ports/log.ts';
import { type Certificate, certificateContext, type TlsDecision } from './front.ts';

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

/** Ready ones kept in memory, some 50 KB each. */
const MOST = 2000;
/** Names known to have none yet; bounded, and looked up again soon. */
const ABSENT = 10_000;
const ABSENT_MS = 1000;

/** What is served for names. Only asked for names that are mapped: others never reach storage. */
export class ServedCertificates {
  readonly #load: (hostname: string) => Promise<CertificatePem | undefined>;
  readonly #ready: LRUCache<string, Certificate>;
  readonly #absent = new LRUCache<string, true>({ max: ABSENT, ttl: ABSENT_MS });
  readonly #loading = new Map<string, Promise<Certificate | undefined>>();

  /** `load` reads a certificate with its key; undefined when there is none. */
  constructor(load: (hostname: string) => Promise<CertificatePem | undefined>, most = MOST) {
    this.#load = load;
    this.#ready = new LRUCache({ max: most });
  }

  /** The certificate; undefined when there is none. Rejects as `load` does. */
  get(hostname: string): Certificate | Promise<Certificate | undefined> | undefined {
    const known = this.#ready.get(hostname);
    if (known !== undefined) return known;
    if (this.#absent.has(hostname)) return undefined;
    const running = this.#loading.get(hostname);
    if (running !== undefined) return running;
    const loading: Promise<Certificate | undefined> = this.#load(hostname)
      .then((pem) => {
        const context = pem === undefined ? undefined : certificateContext(pem);
        // What was replaced meanwhile is good for those who wait, and not kept.
        if (this.#loading.get(hostname) === loading) {
          if (context === undefined) this.#absent.set(hostname, true);
          else this.#ready.set(hostname, context);
        }
        return context;
      })
      .finally(() => {
        if (this.#loading.get(hostname) === loading) this.#loading.delete(hostname);
      });
    this.#loading.set(hostname, loading);
    return loading;
  }

  /** It was replaced: the next handshake reads it again. '' forgets that any is absent, and reads all again. */
  forget(hostname: string): void {
    if (hostname === '') {
      this.#ready.clear();
      this.#absent.clear();
      this.#loading.clear();
      return;
    }
    this.#ready.delete(hostname);
    this.#absent.delete(hostname);
    this.#loading.delete(hostname);
  }

  /** Names in memory. */
  get size(): number {
    return this.#ready.size;
  }
}

/** Names that may wait for a read together. */
const MOST_ASKED = 1000;

/**
 * Challenges that are pending, asked of storage each time: who comes after one was put up finds it. However many ask,
 * one read is under way at a time, for all that came before it began.
 */
export class PendingChallenges {
  readonly #read: (hostnames: readonly string[]) => Promise<ReadonlyMap<string, CertificatePem>>;
  #waiting: { readonly names: Set<string>; readonly found: Promise<ReadonlyMap<string, CertificatePem>> } | undefined;
  #reading: Promise<unknown> = Promise.resolve();

  constructor(read: (hostnames: readonly string[]) => Promise<ReadonlyMap<string, CertificatePem>>) {
    this.#read = read;
  }

  /** What answers this hostname's challenge; undefined: none is pending, or too many ask. Rejects as `read` does. */
  async get(hostname: string): Promise<SecureContext | undefined> {
    let batch = this.#waiting;
    if (batch === undefined) {
      const names = new Set<string>();
      const found = this.#reading.then(() => {
        this.#waiting = undefined;
        return this.#read([...names]);
      });
      batch = { names, found };
      this.#waiting = batch;
      this.#reading = found.catch(() => {});
    }
    if (batch.names.size >= MOST_ASKED) return undefined;
    batch.names.add(hostname);
    const challenge = (await batch.found).get(hostname);
    return challenge === undefined ? undefined : createSecureContext({ ...challenge, minVersion: 'TLSv1.2' });
  }
}
