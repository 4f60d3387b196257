/** The composition root of `troupe up`: a process of all roles, in start order, which ends them in reverse. */
import { reachableAddress } from '../../lib/ip-address.ts';
import { addressOf } from '../../proto/gateway/routes.ts';
import type { Engine } from '../../proto/ports/engine.ts';
import { registryRoute, serviceRoutes } from '../../proto/service-paths.ts';
import { type GatewayAddress, noteGateway } from '../../storage/gateway/gateway-address.ts';
import { replaceManagedRoutes, setNodeRoutes } from '../../storage/gateway/routes.ts';
import { isLoopback } from '../../transports/wire/peer-address.ts';
import { NETWORK_HOST } from '../config/config.ts';
import { containersDomain } from '../config/containers-domain.ts';
import { sshHostKeys } from '../config/platform-keys.ts';
import { servicePages } from '../observability/pages.ts';
import { type GatewayPorts, openGateway } from './gateway.ts';
import { listenNetwork } from './network.ts';
import { DRAIN_MS, openCore, type PlatformCore, type PlatformOptions } from './platform-core.ts';
import { openServices, type PlatformServices } from './platform-services.ts';
import { Teardown } from './shutdown.ts';

/** A platform that serves. */
export interface Platform {
  readonly urls: {
    readonly auth: string;
    readonly compute: string;
    readonly net: string;
    readonly monitor: string;
    readonly notify: string;
    readonly http: string;
    readonly https: string;
    /** The console, for browsers on this machine; null when it was not built. */
    readonly console: string | null;
  };
  /** Where the gateway's SSH server listens. */
  readonly ssh: { readonly host: string; readonly port: number };
  /** Makes the first administrator: platform-core.ts. */
  readonly admin: PlatformCore['admin'];
  readonly engine: Engine;
  /** Rejects with CliError when a service cannot be kept running: the process should end then. */
  readonly failed: PlatformCore['failed'];
  /** Ends everything in reverse: no new work, running requests finish, streams close. Containers keep running. */
  stop(): Promise<void>;
}

/** Builds and starts everything. When a part cannot start, those before it are ended and its error is thrown. */
export async function startPlatform(options: PlatformOptions): Promise<Platform> {
  const teardown = new Teardown(options.log);
  try {
    const core = await openCore(options, teardown);
    // Known once the gateway listens.
    let gatewayAddress: GatewayAddress | undefined;
    const services = await openServices(core, () => gatewayAddress);
    const { gateway, net, address } = await openEntrance(core, services);
    gatewayAddress = address;
    const { domain, host } = options;
    return {
      urls: {
        auth: `http://${services.auth.target}`,
        compute: `http://${services.compute.target}`,
        net: `http://${net}`,
        monitor: `http://${services.monitor.target}`,
        notify: `http://${services.notify.target}`,
        http: `http://${domain}:${gateway.ports.http}`,
        https: `https://${domain}:${gateway.ports.https}`,
        console: gateway.hasConsole ? consoleUrl(domain, host, gateway.ports) : null,
      },
      ssh: { host: reachableAddress(host), port: gateway.ports.ssh },
      admin: core.admin,
      engine: core.engine,
      failed: core.failed,
      stop: () => teardown.run(),
    };
  } catch (error) {
    await teardown.run();
    throw error;
  }
}

/**
 * Where the console is opened first: on this machine over plain HTTP, where no certificate has to be trusted before and
 * security keys work as well. That needs a name that means this machine, and a listener that is reached by it.
 */
function consoleUrl(domain: string, host: string, { http, https }: GatewayPorts): string {
  const isHere = /(?:^|\.)localhost$/i.test(domain) && isLoopback(reachableAddress(host));
  return isHere ? `http://${domain}:${http}/` : `https://${domain}${https === 443 ? '' : `:${https}`}/`;
}

/** Opens it in front of the services. `net`: where the networking API is; `address`: where it answers, for people. */
async function openEntrance(core: PlatformCore, services: PlatformServices) {
  const { options, teardown, db, system, engine, installation, metrics, busProblem, sharedClock } = core;
  const { environment, secrets, log, domain, host } = options;
  const { network, mapped } = services;
  const listener = await listenNetwork(network, {
    log,
    environment,
    domain,
    ...core.callers,
    port: options.ports.net,
    clientAddress: services.addressOf('net'),
    pages: servicePages(network, metrics.registry, environment),
    onReply: metrics.onReply('network'),
    trace: core.tracing?.requests('network'),
  });
  teardown.add('network listener', () => listener.close(DRAIN_MS));
  const net = `${NETWORK_HOST}:${listener.port}`;
  const routed = routedServices(services, { endpoints: network.endpoints, target: net });
  // For gateways that run alone: they follow the processes that live.
  const { ADVERTISE_ADDRESS: advertised } = environment;
  const outside = routed.map((one) =>
    advertised === undefined || one.target === net
      ? one
      : { ...one, target: `${advertised}:${addressOf(one.target).port}` },
  );
  const registry = options.registry === undefined ? [] : [registryRoute(options.registry)];
  const announced = [...serviceRoutes(domain, outside), ...registry];
  await replaceManagedRoutes(db, announced);
  await setNodeRoutes(db, core.membership.id, announced);
  const sshKeys = { host: await sshHostKeys(db, secrets.encryptionKey), platform: core.keys.privateKey };
  const gateway = await openGateway({
    sshKeys,
    mapped,
    installation,
    system,
    db,
    engine,
    domain,
    containersDomain: containersDomain(environment, domain),
    host,
    ports: options.ports,
    certificate: options.certificate,
    ownRoutes: [...serviceRoutes(domain, routed), ...registry],
    fileRoutes: [],
    barrier: options.registry?.barrier,
    fallback: undefined,
    accessLog: options.accessLog,
    proxies: options.proxies,
    isCaching: options.isCaching,
    processRegistry: metrics.registry,
    busProblem,
    environment,
    jwtSecret: secrets.jwtSecret,
    sharedClock,
    log: log.child({ service: 'gateway' }),
  });
  services.tools.reach(gateway.control, gateway.ports);
  teardown.add('gateway', () => gateway.stop(DRAIN_MS));
  return { gateway, net, address: await noteGateway(db, domain, host, gateway.ports) };
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
