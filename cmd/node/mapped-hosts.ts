/**
 * Mapped hosts at a gateway: where they lead, and certificates for them, from ordering to handshakes
 * (docs/reference/certificates.md).
 */
import type { KeyObject } from 'node:crypto';
import type { Registry } from 'prom-client';
import { certificateNumbers, type DnsView } from '../../actors/network/certificate-deps.ts';
import { startCertificates } from '../../actors/network/certificates.ts';
import type { Placement } from '../../actors/service/placement.ts';
import type { CertificateAuthority, MappingSource } from '../../proto/ports/acme.ts';
import type { Log } from '../../proto/ports/log.ts';
import type { Db } from '../../storage/db.ts';
import { certificateStore } from '../../storage/network/certificates.ts';
import { networkNews } from '../../storage/network/news.ts';
import { mappingSource } from '../../storage/network/served-mappings.ts';
import type { SystemRef } from '../../supervision/index.ts';
import { findAddresses } from '../../transports/clients/dns/resolvers.ts';
import { MappedCertificates } from '../../transports/gateway/tls/mapped-certificates.ts';
import { CliError } from '../config/cli-error.ts';
import { type Environment, fileOf } from '../config/config.ts';
import { certificateMetrics } from '../observability/metrics.ts';

/** The largest public authority. Naming an address to reach the operator by accepts its terms. */
const PUBLIC_DIRECTORY = 'https://acme-v02.api.letsencrypt.org/directory';

/** Where the authority is that the environment names; undefined: it names none, and nothing is ordered. */
export function directoryOf({ ACME_DIRECTORY_URL: url, ACME_EMAIL: email }: Environment): string | undefined {
  return url ?? (email === undefined ? undefined : PUBLIC_DIRECTORY);
}

/** The authority that the environment names, if any. Rejects with CliError for a file that cannot be read. */
export async function authorityOf(environment: Environment): Promise<CertificateAuthority | undefined> {
  const { ACME_EMAIL: email, ACME_CA_FILE: caFile, ACME_EAB_KID: kid, ACME_EAB_HMAC_KEY: hmacKey } = environment;
  const directoryUrl = directoryOf(environment);
  if ((kid === undefined) !== (hmacKey === undefined))
    throw new CliError('ACME_EAB_KID and ACME_EAB_HMAC_KEY go together: give both.');
  if (directoryUrl === undefined) return undefined;
  const binding = kid === undefined || hmacKey === undefined ? undefined : { kid, hmacKey };
  const ca = fileOf('ACME_CA_FILE', caFile);
  // Its library is large, and many installations order nothing.
  const { acmeAuthority } = await import('../../transports/clients/acme/authority.ts');
  return acmeAuthority({ directoryUrl, email, binding, ca });
}

/** DNS as the environment's resolvers see it. */
export function dnsOf({ DNS_RESOLVERS: servers = [], INGRESS_HOST }: Environment, domain: string): DnsView {
  return { find: findAddresses({ servers }), ingressHost: INGRESS_HOST ?? domain.toLowerCase() };
}

/** What a gateway is given, and how it ends. */
export interface MappedHosts {
  readonly mappings: MappingSource;
  /** Undefined without a key that opens certificates. */
  readonly certificates: MappedCertificates | undefined;
  close(): Promise<void>;
}

/** Opens what serves certificates, and starts what orders them, under `system`; before the process joins a cluster. */
export async function openMappedHosts(options: {
  readonly system: SystemRef;
  readonly db: Db;
  /** Undefined in a process that is no member of the cluster. */
  readonly placement: Placement | undefined;
  /** Without it nothing is ordered here, and no certificate opens: HTTPS of mapped hosts is refused. */
  readonly sealKey: KeyObject | undefined;
  readonly authority: CertificateAuthority | undefined;
  readonly log: Log;
  /** Shown on the gateway's `/metrics`. */
  readonly registry: Registry;
  /** DNS as it is seen from here; undefined: certificates are ordered without a look at it. */
  readonly dns?: DnsView | undefined;
  readonly leaseMs?: number;
  readonly lookMs?: number;
}): Promise<MappedHosts> {
  const { system, registry, sealKey, ...rest } = options;
  const { db, authority, log } = rest;
  const news = networkNews(db);
  const mappings = mappingSource(db, news);
  if (sealKey === undefined) return { mappings, certificates: undefined, close: async () => authority?.close() };
  const numbers = certificateNumbers();
  certificateMetrics(registry, { db, numbers, directoryUrl: authority?.directoryUrl });
  const certificates = new MappedCertificates(certificateStore(db, sealKey), log);
  await startCertificates(system, { ...rest, sealKey, news, numbers });
  return {
    mappings,
    certificates,
    close: async () => {
      await certificates.close();
      authority?.close();
    },
  };
}
