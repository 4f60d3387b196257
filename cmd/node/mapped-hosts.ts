/**
 * Mapped hosts at a gateway: where they lead, and certificates for them, from ordering to handshakes
 * (docs/reference/certificates.md).
 */
import type { KeyObject } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { Registry } from 'prom-client';
import type { MappingSource } from '../../actors/gateway/deps.ts';
import { certificateNumbers, type DnsView } from '../../actors/network/certificate-deps.ts';
import { startCertificates } from '../../actors/network/certificates.ts';
import { startServiceSupervisor } from '../../actors/service/supervisor.ts';
import type { CertificateAuthority } from '../../proto/ports/acme.ts';
import type { Log } from '../../proto/ports/log.ts';
import type { Db } from '../../storage/db.ts';
import { verifiedMappings } from '../../storage/network/mappings.ts';
import { networkNews } from '../../storage/network/news.ts';
import type { SystemRef } from '../../supervision/index.ts';
import { acmeAuthority } from '../../transports/clients/acme/authority.ts';
import { findAddresses } from '../../transports/clients/dns/addresses.ts';
import { CliError } from '../config/cli-error.ts';
import type { Environment } from '../config/config.ts';
import { certificateMetrics } from '../observability/certificate-metrics.ts';
import { type MappedTls, mappedTls, NO_TLS } from './mapped-tls.ts';

/** The largest public authority. Naming an address to reach the operator by accepts its terms. */
const PUBLIC_DIRECTORY = 'https://acme-v02.api.letsencrypt.org/directory';

/**
 * The authority that the environment names; undefined when it names none. Throws CliError for a file that cannot be
 * read.
 */
export function authorityOf(environment: Environment): CertificateAuthority | undefined {
  const { ACME_EMAIL: email, ACME_CA_FILE: caFile, ACME_EAB_KID: kid, ACME_EAB_HMAC_KEY: hmacKey } = environment;
  const directoryUrl = environment.ACME_DIRECTORY_URL ?? (email === undefined ? undefined : PUBLIC_DIRECTORY);
  if ((kid === undefined) !== (hmacKey === undefined))
    throw new CliError('ACME_EAB_KID and ACME_EAB_HMAC_KEY go together: give both.');
  if (directoryUrl === undefined) return undefined;
  const binding = kid === undefined || hmacKey === undefined ? undefined : { kid, hmacKey };
  return acmeAuthority({ directoryUrl, email, binding, ca: caFile === undefined ? undefined : read(caFile) });
}

/** DNS as the environment's resolvers see it. */
export function dnsOf({ DNS_RESOLVERS: servers = [], INGRESS_HOST }: Environment, domain: string): DnsView {
  return { find: findAddresses({ servers }), ingressHost: INGRESS_HOST ?? domain.toLowerCase() };
}

function read(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (cause) {
    throw new CliError(`ACME_CA_FILE is ${file}, which cannot be read.`, { cause });
  }
}

/** What a gateway is given, and how it ends. */
interface MappedHosts {
  readonly mappings: MappingSource;
  readonly tls: MappedTls;
  close(): Promise<void>;
}

/** Starts what orders certificates, under `system`, and opens what serves them. */
export async function openMappedHosts(options: {
  readonly system: SystemRef;
  readonly db: Db;
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
  const { system, db, sealKey, authority, log, registry, dns, leaseMs, lookMs } = options;
  const news = networkNews(db);
  const numbers = certificateNumbers();
  if (sealKey !== undefined) certificateMetrics(registry, { db, numbers, directoryUrl: authority?.directoryUrl });
  const tls = sealKey === undefined ? NO_TLS : mappedTls(db, sealKey, log);
  const own = {
    ...(leaseMs === undefined ? {} : { leaseMs }),
    ...(lookMs === undefined ? {} : { lookMs }),
  };
  if (sealKey !== undefined)
    await startServiceSupervisor(system, 'network-certificates', {
      certificates: (parent) => startCertificates(parent, { db, log, sealKey, authority, news, numbers, dns, ...own }),
    });
  return {
    mappings: {
      read: async () =>
        new Map(
          (await verifiedMappings(db)).map(({ hostname, containerId, targetPort }) => [
            hostname,
            { containerId, targetPort },
          ]),
        ),
      watch: (onChange) => news.onNews(() => onChange()),
    },
    tls,
    close: async () => {
      await tls.close();
      authority?.close();
    },
  };
}
