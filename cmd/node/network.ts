/** Puts the networking API together: its actors, and its listener beside the gateway, on loopback alone. */
import { createSecretKey, type KeyObject, randomBytes } from 'node:crypto';
import { startNetwork } from '../../actors/network/service.ts';
import type { Placement } from '../../actors/service/placement.ts';
import type { Service } from '../../proto/endpoint.ts';
import type { KeptAnswers } from '../../proto/kept-answers.ts';
import { plainText } from '../../proto/network/endpoints.ts';
import type { HttpServer } from '../../proto/ports/http.ts';
import type { ToolServer } from '../../proto/ports/tools.ts';
import { containerOwner } from '../../storage/compute/containers.ts';
import { computeNews } from '../../storage/compute/news.ts';
import type { Queries } from '../../storage/db.ts';
import { getOrCreateSetting } from '../../storage/settings.ts';
import { api, type Pages, type RequestTrace } from '../../transports/api/api.ts';
import type { ChangeLimit } from '../../transports/api/change-limit.ts';
import type { ClientAddress } from '../../transports/api/client-address.ts';
import { dashboardPages, withCors } from '../../transports/api/cors.ts';
import { cloudflare } from '../../transports/clients/cloudflare/provider.ts';
import { findZone, txtResolvers } from '../../transports/clients/dns/resolvers.ts';
import { listen } from '../../transports/http/index.ts';
import { NETWORK_HOST } from '../config/config.ts';
import { containersDomain } from '../config/containers-domain.ts';
import { dnsOf } from './mapped-hosts.ts';
import type { RoleParts } from './roles/role.ts';

/** What its actors are built from. */
interface NetworkOptions extends Pick<RoleParts, 'system' | 'db' | 'log' | 'clock' | 'environment' | 'domain'> {
  /** Undefined in a process that is no member of the cluster. */
  readonly placement: Placement | undefined;
  readonly installation: string;
  /** Without it there is no integration with a DNS provider. */
  readonly encryptionKey: KeyObject | undefined;
  readonly tools: ToolServer;
  /** How often mappings are looked for that are due, ms; for tests. */
  readonly lookMs?: number;
}

/** Starts the service, before the process joins the cluster. */
export async function openNetwork(options: NetworkOptions): Promise<Service> {
  const { system, db, log, clock, environment, encryptionKey, placement } = options;
  const domain = options.domain.toLowerCase();
  const dns = { servers: environment.DNS_RESOLVERS ?? [] };
  const providerUrl = environment.DNS_PROVIDER_URL;
  return startNetwork(system, {
    db,
    placement,
    log: log.child({ service: 'network' }),
    clock,
    installation: options.installation,
    resolvers: txtResolvers(dns),
    findZone: findZone(dns),
    proofKey: await proofKeyOf(db),
    integration:
      encryptionKey === undefined
        ? undefined
        : { sealKey: encryptionKey, provider: cloudflare(providerUrl === undefined ? {} : { url: providerUrl }) },
    own: {
      domain,
      containersDomain: containersDomain(options.environment, domain),
      ingressHost: environment.INGRESS_HOST ?? domain,
      registryHost: environment.REGISTRY_HOST,
    },
    containerOwner: (id) => containerOwner(db, id),
    dns: dnsOf(environment, domain),
    computeNews: computeNews(db),
    tools: options.tools,
    ...(options.lookMs === undefined ? {} : { lookMs: options.lookMs }),
  });
}

/** Not sealed: a gateway without ENCRYPTION_KEY has to know the same records, which stand in plain in the database. */
async function proofKeyOf(db: Queries): Promise<KeyObject> {
  const key = await getOrCreateSetting(db, 'hostname_proof_key', () => randomBytes(32).toString('base64url'));
  return createSecretKey(key, 'base64url');
}

/** What its listener is built from. */
interface NetworkListenerOptions
  extends Pick<RoleParts, 'log' | 'environment' | 'domain' | 'authenticate' | 'streams'> {
  readonly port: number;
  readonly changes?: ChangeLimit;
  readonly kept?: KeptAnswers;
  readonly pages: Pages;
  readonly onReply: (endpoint: string, status: number) => void;
  readonly trace?: RequestTrace | undefined;
  readonly clientAddress?: ClientAddress;
}

/** Lets the service listen. Rejects when the port is taken. */
export function listenNetwork(service: Service, options: NetworkListenerOptions): Promise<HttpServer> {
  const { environment, authenticate, streams, port } = options;
  const domain = options.domain.toLowerCase();
  const log = options.log.child({ service: 'network' });
  const isOwnPage = dashboardPages(domain, containersDomain(options.environment, domain));
  const { onRequest, onUpgrade, onFault } = api({
    service,
    authenticate,
    streams,
    domain,
    log,
    plainText,
    pages: options.pages,
    cookie: { name: 'token', isOwnPage },
    onReply: options.onReply,
    trace: options.trace,
    ...(options.changes === undefined ? {} : { changes: options.changes }),
    ...(options.kept === undefined ? {} : { kept: options.kept }),
    ...(options.clientAddress === undefined ? {} : { clientAddress: options.clientAddress }),
  });
  return listen(
    { host: NETWORK_HOST, port, onRequest: withCors(onRequest, isOwnPage), onUpgrade, onFault },
    environment.HTTP_ADAPTER,
    (line) => log.warn({}, line),
  );
}
