/** Puts the networking API together: hosted by the gateway's process, on loopback alone. */
import type { KeyObject } from 'node:crypto';
import { startNetwork } from '../../actors/network/service.ts';
import type { Service } from '../../proto/endpoint.ts';
import { plainText } from '../../proto/network/endpoints.ts';
import type { HttpServer } from '../../proto/ports/http.ts';
import { containerOwner } from '../../storage/compute/containers.ts';
import { computeNews } from '../../storage/compute/news.ts';
import { api, type Pages } from '../../transports/api/api.ts';
import type { Changes } from '../../transports/api/authentication.ts';
import type { ClientAddress } from '../../transports/api/client-address.ts';
import { dashboardPages, withCors } from '../../transports/api/cors.ts';
import { cloudflare } from '../../transports/clients/cloudflare/provider.ts';
import { txtResolvers } from '../../transports/clients/dns/resolvers.ts';
import { listen } from '../../transports/http/index.ts';
import { NETWORK_HOST } from '../config/config.ts';
import { dnsOf } from './mapped-hosts.ts';
import type { RoleParts } from './roles/role.ts';

/** What the API is built from. */
interface NetworkApiOptions
  extends Pick<RoleParts, 'system' | 'db' | 'log' | 'clock' | 'environment' | 'domain' | 'authenticate' | 'streams'> {
  readonly port: number;
  readonly installation: string;
  /** Without it there is no integration with a DNS provider. */
  readonly encryptionKey: KeyObject | undefined;
  readonly changes?: Changes;
  readonly pages: (service: Service) => Pages;
  readonly onReply: (endpoint: string, status: number) => void;
  readonly clientAddress?: ClientAddress;
  /** How often mappings are looked for that are due, ms; for tests. */
  readonly lookMs?: number;
}

/** Starts service and listener. Rejects when the port is taken. */
export async function openNetworkApi(options: NetworkApiOptions): Promise<{ service: Service; server: HttpServer }> {
  const { system, db, clock, environment, encryptionKey, authenticate, streams, port } = options;
  const domain = options.domain.toLowerCase();
  const log = options.log.child({ service: 'network' });
  const providerUrl = environment.DNS_PROVIDER_URL;
  const service = await startNetwork(system, {
    db,
    log,
    clock,
    installation: options.installation,
    resolvers: txtResolvers({ servers: environment.DNS_RESOLVERS ?? [] }),
    integration:
      encryptionKey === undefined
        ? undefined
        : { sealKey: encryptionKey, provider: cloudflare(providerUrl === undefined ? {} : { url: providerUrl }) },
    own: { domain, ingressHost: environment.INGRESS_HOST ?? domain, registryHost: environment.REGISTRY_HOST },
    containerOwner: (id) => containerOwner(db, id),
    dns: dnsOf(environment, domain),
    computeNews: computeNews(db),
    ...(options.lookMs === undefined ? {} : { lookMs: options.lookMs }),
  });
  const isOwnPage = dashboardPages(domain);
  const { onRequest, onUpgrade, onFault } = api({
    service,
    authenticate,
    streams,
    domain,
    log,
    plainText,
    pages: options.pages(service),
    cookie: { name: 'token', isOwnPage },
    onReply: options.onReply,
    ...(options.changes === undefined ? {} : { changes: options.changes }),
    ...(options.clientAddress === undefined ? {} : { clientAddress: options.clientAddress }),
  });
  const server = await listen(
    { host: NETWORK_HOST, port, onRequest: withCors(onRequest, isOwnPage), onUpgrade, onFault },
    environment.HTTP_ADAPTER,
    (line) => log.warn({}, line),
  );
  return { service, server };
}
