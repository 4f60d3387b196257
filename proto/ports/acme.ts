/** Certificates for mapped hostnames, as the parts that order, keep and serve them speak of them. */
import { CodedError } from '../../lib/errors.ts';
import type { CacheMode } from '../gateway/cache-mode.ts';
import type { Ending } from './ending.ts';

/** A chain (leaf first) and its private key, both PEM. */
export interface CertificatePem {
  readonly cert: string;
  readonly key: string;
}

/** An account at a certificate authority. */
export interface CaAccount {
  /** Private key, PEM. */
  readonly key: string;
  readonly url: string;
}

/** One certificate to obtain. An order that was begun before is taken up where it stands. */
export interface CaOrder {
  readonly account: CaAccount;
  readonly hostname: string;
  /** Key of the certificate, PEM: the same for the whole life of an order. */
  readonly key: string;
  /** Where the order is, when there is one. */
  readonly orderUrl: string | undefined;
  /** Called once with the address of a new order, before anything else is done with it. */
  readonly onOrder: (url: string) => Promise<void>;
  /** Called with the certificate that answers the challenge (RFC 8737); once it resolves every gateway must have it. */
  readonly present: (challenge: CertificatePem) => Promise<void>;
  readonly signal: AbortSignal;
}

/**
 * A certificate authority that speaks ACME (RFC 8555). All calls reject with CaError, or with the reason of `signal`.
 */
export interface CertificateAuthority {
  readonly directoryUrl: string;
  /** A new private key, PEM. */
  newKey(): Promise<string>;
  /** Makes the account of this key, or finds it; its address. */
  register(key: string, signal: AbortSignal): Promise<string>;
  /** The chain, PEM, checked against key and hostname. */
  issue(order: CaOrder): Promise<string>;
  close(): void;
}

/**
 * - `unavailable`: not reached, too slow, or 5xx
 * - `stuck`: the order is there, and does not get on
 * - `rate_limited`: asked to wait
 * - `no_account`: the account is unknown, deactivated or revoked: another has to be made
 * - `no_order`: the order is gone or has failed: another has to be placed
 * - `refused`: the authority says no to this hostname or could not verify it
 * - `bad_answer`: what it says makes no sense
 */
export type CaErrorCode =
  | 'unavailable'
  | 'stuck'
  | 'rate_limited'
  | 'no_account'
  | 'no_order'
  | 'refused'
  | 'bad_answer';

/** The one error a CertificateAuthority rejects with. `message` is in the authority's own words where it had some. */
export class CaError extends CodedError<CaErrorCode> {
  /** The problem's type without `urn:ietf:params:acme:error:`; undefined when there was none. */
  readonly problem: string | undefined;
  /** How long it asks to wait, ms. */
  readonly retryAfterMs: number | undefined;
  /** Whether placing the order itself was refused, which may concern the whole account. */
  readonly isAtOrder: boolean;
  constructor(
    code: CaErrorCode,
    message: string,
    options: {
      cause?: unknown;
      problem?: string | undefined;
      retryAfterMs?: number | undefined;
      isAtOrder?: boolean;
    } = {},
  ) {
    super(code, message, options);
    this.problem = options.problem;
    this.retryAfterMs = options.retryAfterMs;
    this.isAtOrder = options.isAtOrder ?? false;
  }
}

/** A hostname that is served: where its requests go. */
export interface MappedHost {
  readonly containerId: string;
  readonly targetPort: number;
  /** What the response cache keeps of its answers. Absent: `default`. */
  readonly cache?: CacheMode;
}

/** A verified mapping. */
export interface VerifiedMapping extends MappedHost {
  readonly hostname: string;
}

/** Where verified mappings come from. */
export interface MappingSource {
  /** Those of `hostnames` that there are. */
  named(hostnames: readonly string[]): Promise<readonly VerifiedMapping[]>;
  /** The next ones after `hostname` ('' is before the first), in an order of its own, at most `limit`. */
  after(hostname: string, limit: number): Promise<readonly VerifiedMapping[]>;
  /** Calls back with the hostname that was verified, changed or removed; undefined: that may have been missed. */
  watch(onChange: (hostname: string | undefined) => void): Ending;
}

/** The certificates of mapped hostnames, as storage has them. */
export interface CertificateStore {
  /** The certificate of a hostname; undefined while there is none. Rejects when its key cannot be opened. */
  read(hostname: string): Promise<CertificatePem | undefined>;
  /** The certificates that answer pending challenges, of those hostnames that have one. */
  challenges(hostnames: readonly string[]): Promise<ReadonlyMap<string, CertificatePem>>;
  /** Calls back with each hostname whose certificate was replaced, and with '' when some may have been missed. */
  watch(onReplaced: (hostname: string) => void): Ending;
}
