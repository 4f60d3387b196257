/** What the world meets of `troupe up`: the networking API, the routes to its services, and the gateway. */
import { gatewayTokenSigner } from '../../proto/gateway/gateway-token.ts';
import { addressOf } from '../../proto/gateway/routes.ts';
import { serviceRoutes } from '../../proto/service-paths.ts';
import { replaceManagedRoutes, setNodeRoutes } from '../../storage/gateway/routes.ts';
import { noteSshAddress } from '../../storage/gateway/ssh-address.ts';
import { sshHostKeys } from '../config/platform-keys.ts';
import { servicePages } from '../observability/pages.ts';
import { openGateway } from './gateway.ts';
import { authorityOf, dnsOf, openMappedHosts } from './mapped-hosts.ts';
import { NETWORK_HOST, openNetworkApi } from './network.ts';
import { DRAIN_MS, type PlatformCore } from './platform-core.ts';
import type { PlatformServices } from './platform-services.ts';
import { CLOCK } from './runtime.ts';

/** Opens it in front of the services. `net`: where the networking API is; `address`: where SSH is, for people. */
export async function openEntrance(core: PlatformCore, services: PlatformServices) {
  const { options, teardown, db, system, engine, installation, metrics, busProblem, sharedClock } = core;
  const { environment, secrets, log, domain, host } = options;
  const network = await openNetworkApi({
    system,
    db,
    log,
    clock: CLOCK,
    environment,
    domain,
    installation,
    authenticate: core.callers.authenticate,
    streams: core.callers.streams,
    changes: core.callers.changes,
    encryptionKey: secrets.encryptionKey,
    port: options.ports.net,
    clientAddress: services.addressOf('net'),
    pages: (service) => servicePages(service, metrics.registry, environment),
    onReply: metrics.onReply('network'),
  });
  teardown.add('network listener', () => network.server.close(DRAIN_MS));
  const net = `${NETWORK_HOST}:${network.server.port}`;
  const routed = routedServices(services, { endpoints: network.service.endpoints, target: net });
  // For gateways that run alone: they follow the processes that live.
  const { ADVERTISE_ADDRESS: advertised } = environment;
  const outside = routed.map((one) =>
    advertised === undefined || one.target === net
      ? one
      : { ...one, target: `${advertised}:${addressOf(one.target).port}` },
  );
  const announced = serviceRoutes(domain, outside);
  await replaceManagedRoutes(db, announced);
  await setNodeRoutes(db, core.membership.id, announced);
  const sshKeys = { host: await sshHostKeys(db, secrets.encryptionKey), platform: core.keys.privateKey };
  const mapped = await openMappedHosts({
    system,
    db,
    sealKey: secrets.encryptionKey,
    authority: authorityOf(environment),
    dns: dnsOf(environment, domain),
    log: log.child({ service: 'network' }),
    registry: metrics.registry,
  });
  teardown.add('mapped hosts', () => mapped.close());
  const gateway = await openGateway({
    sshKeys,
    mapped,
    installation,
    system,
    db,
    engine,
    domain,
    host,
    ports: options.ports,
    certificate: options.certificate,
    ownRoutes: serviceRoutes(domain, routed),
    fileRoutes: [],
    fallback: undefined,
    accessLog: options.accessLog,
    proxies: options.proxies,
    isCaching: options.isCaching,
    processRegistry: metrics.registry,
    busProblem,
    pipelined: environment.PIPELINED_ORIGINS,
    sharedOrigins: environment.CACHE_SHARED_ORIGINS,
    gatewayToken: gatewayTokenSigner(secrets.jwtSecret, sharedClock),
    log: log.child({ service: 'gateway' }),
  });
  teardown.add('gateway', () => gateway.stop(DRAIN_MS));
  return { gateway, net, address: await noteSshAddress(db, domain, host, gateway.ports.ssh) };
}

type Routed = Parameters<typeof serviceRoutes>[1][number];

/** What leads to the services: their endpoints, and where they listen. */
function routedServices(services: PlatformServices, net: Omit<Routed, 'name'>): Routed[] {
  const led = (name: 'auth' | 'compute' | 'monitor' | 'notify') => {
    const { endpoints, target } = services[name];
    return { name, endpoints, target };
  };
  return [led('auth'), led('compute'), { name: 'net', ...net }, led('monitor'), led('notify')];
}
