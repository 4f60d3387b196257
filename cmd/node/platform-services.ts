/**
 * The services of `troupe up`, and the listeners of authentication, compute, the monitor and notifications; that of the
 * networking API is beside the gateway.
 */
import type { RegistryDeps } from '../../actors/auth/deps.ts';
import { reachableAddress } from '../../lib/ip-address.ts';
import { runtimeEndpoints } from '../../proto/auth/actors.ts';
import type { Service } from '../../proto/endpoint.ts';
import { gatewayTokenVerifier } from '../../proto/gateway/gateway-token.ts';
import { hostsOfOthers, type RoutedServiceName } from '../../proto/service-paths.ts';
import type { Db } from '../../storage/db.ts';
import type { GatewayAddress } from '../../storage/gateway/gateway-address.ts';
import { api } from '../../transports/api/api.ts';
import { clientAddress } from '../../transports/api/client-address.ts';
import { listen } from '../../transports/http/index.ts';
import { auditMetrics } from '../observability/metrics.ts';
import { servicePages } from '../observability/pages.ts';
import { authorityOf, dnsOf, type MappedHosts, openMappedHosts } from './mapped-hosts.ts';
import { openNetwork } from './network.ts';
import { ActorOperations, withOperations, withProblem } from './operations.ts';
import { DRAIN_MS, type PlatformCore, type PlatformOptions } from './platform-core.ts';
import { platformFacts } from './platform-facts.ts';
import { platformOperations } from './platform-operations.ts';
import { imagesRemoval, openAuth } from './roles/auth.ts';
import { openCompute } from './roles/compute.ts';
import { DEFAULT_REFRESH_MS, openMonitor } from './roles/monitor.ts';
import { openNotify } from './roles/notify.ts';
import { type RoleParts, registryOf } from './roles/role.ts';
import { CLOCK } from './runtime.ts';
import { startOutboxRelay } from './shared.ts';
import { PlatformTools } from './tools.ts';

/** A service that listens; `target`: its address from this machine, as the host and port of a URL. */
interface Listening {
  readonly service: Service;
  /** What the gateway leads to it. */
  readonly endpoints: Service['endpoints'];
  readonly target: string;
}

/** All that listen here, the networking API, and how the address of a client is found for a service. */
export interface PlatformServices extends Readonly<Record<Exclude<RoutedServiceName, 'net'>, Listening>> {
  readonly network: Service;
  /** At `/mcp` of the networking API. */
  readonly tools: PlatformTools;
  readonly mapped: MappedHosts;
  readonly addressOf: (name: RoutedServiceName) => ReturnType<typeof clientAddress>;
}

/** Opens the services, joins the cluster, and lets them listen. `gatewayAddress`: known once the gateway listens. */
export async function openServices(
  core: PlatformCore,
  gatewayAddress: () => GatewayAddress | undefined,
): Promise<PlatformServices> {
  const { options, teardown, db, bus, busProblem, system, membership, metrics } = core;
  const { environment, secrets, log } = options;
  const { placement } = membership;
  const partsOf = (service: string): RoleParts => ({
    environment,
    domain: options.domain,
    db,
    bus,
    busProblem,
    system,
    log: log.child({ service }),
    clock: CLOCK,
    jwtSecret: secrets.jwtSecret,
    metrics,
    ...core.callers,
  });
  const registry = await registryDeps(partsOf('auth'), options.registry);
  const auth = await openAuth(partsOf('auth'), placement, { registry });
  const takenPorts = Object.values(options.ports);
  const { engine, keys } = core;
  const { encryptionKey: sealKey } = secrets;
  const sshAddress = () => gatewayAddress()?.ssh;
  const compute = await openCompute(partsOf('compute'), placement, {
    engine,
    keys,
    sealKey,
    sshAddress,
    takenPorts,
    registryAddress: options.registry?.address,
  });
  const notify = await openNotify(
    partsOf('notify'),
    environment.NATS_URL === undefined ? undefined : placement,
    secrets.encryptionKey,
  );
  const tools = new PlatformTools(options.domain, log);
  const network = await openNetwork({
    ...partsOf('network'),
    placement,
    installation: core.installation,
    encryptionKey: secrets.encryptionKey,
    tools,
  });
  const mapped = await openMappedHosts({
    system,
    db,
    placement,
    sealKey: secrets.encryptionKey,
    authority: await authorityOf(environment),
    dns: dnsOf(environment, options.domain),
    log: log.child({ service: 'network' }),
    registry: metrics.registry,
  });
  teardown.add('mapped hosts', () => mapped.close());
  startOutboxRelay(system, { db, bus, placement, log });
  await membership.join();
  auditMetrics(metrics.registry, db);

  const isGatewayToken = gatewayTokenVerifier(secrets.jwtSecret, core.sharedClock);
  const addressOf = (name: RoutedServiceName) =>
    clientAddress({
      isGatewayToken,
      isTrusted: options.proxies?.isTrusted,
      log,
      hostsOfOthers: hostsOfOthers(name, options.domain),
    });
  const running: Listening[] = [];
  const monitor = await openPlatformMonitor(core, () => running);
  const serve = async (name: Exclude<RoutedServiceName, 'net'>, bare: Service, endpoints = bare.endpoints) => {
    // Metrics go on without the broker.
    const service = bare === monitor.service ? bare : withProblem(bare, busProblem);
    const handlers = api({
      service,
      ...core.callers,
      pages: servicePages(service, metrics.registry, environment),
      domain: options.domain,
      log,
      clientAddress: addressOf(name),
      onReply: metrics.onReply(service.name),
      trace: core.tracing?.requests(service.name),
    });
    const server = await listen(
      { host: options.host, port: options.ports[name], ...handlers },
      environment.HTTP_ADAPTER,
      (line) => log.warn({}, line),
    );
    teardown.add(`${service.name} listener`, () => server.close(DRAIN_MS));
    const listening = { service, endpoints, target: `${urlHost(options.host)}:${server.port}` };
    running.push(listening);
    return listening;
  };
  const facts = factsOf(db, options, gatewayAddress);
  const listeners = {
    auth: await serve('auth', withOperations(auth, new ActorOperations(core.post, db), platformOperations(db), facts), [
      ...auth.endpoints,
      ...facts.endpoints,
      ...runtimeEndpoints,
    ]),
    compute: await serve('compute', compute),
    monitor: await serve('monitor', monitor.service),
    notify: await serve('notify', notify),
  };
  teardown.add('streams of the monitor', async () => monitor.service.drain());
  return { ...listeners, network, tools, mapped, addressOf };
}

/** What the authentication service is told of the image registry; `own`: of the one that is asked past its name. */
async function registryDeps(parts: RoleParts, own: PlatformOptions['registry']): Promise<RegistryDeps> {
  const registry = await registryOf(parts.environment, parts.db);
  return {
    ...registry,
    asksHolders: own?.asksHolders,
    room: own?.room,
    usage: own?.usage,
    removeImages: imagesRemoval(parts, registry, own?.address),
  };
}

function factsOf(
  db: Db,
  { environment, domain, registry }: PlatformOptions,
  gatewayAddress: () => GatewayAddress | undefined,
) {
  const hasOwnRegistry = registry?.usage !== undefined;
  return platformFacts({
    db,
    environment,
    domain,
    architecture: registry?.architecture,
    hasOwnRegistry,
    gatewayAddress,
  });
}

/** Starts the monitor of this process, which draws the services that listen. */
async function openPlatformMonitor(core: PlatformCore, services: () => readonly Listening[]) {
  const { options, teardown, db, bus, busProblem, system, metrics, engine } = core;
  const { environment, log } = options;
  const monitor = await openMonitor({
    system,
    db,
    bus,
    clock: CLOCK,
    log: log.child({ service: 'monitor' }),
    registry: metrics.registry,
    containers: options.metrics?.(core.installation),
    diskPaths: options.diskPaths ?? ['/'],
    adminUsername: environment.ADMIN_USERNAME,
    refreshMs: options.refreshMs ?? DEFAULT_REFRESH_MS,
    processName: 'troupe',
    graph: {
      services,
      hasGateway: true,
      requests: metrics.requests,
      bus: { kind: environment.NATS_URL === undefined ? 'embedded' : 'nats', problem: busProblem },
      engineKind: engine.kind,
    },
  });
  teardown.add('sources of metrics', () => monitor.close());
  return monitor;
}

/** The address at which a listener on `host` is reached from this machine, as the host part of a URL. */
function urlHost(host: string): string {
  const address = reachableAddress(host);
  return address.includes(':') ? `[${address}]` : address;
}
