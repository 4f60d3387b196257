/** The composition root: builds every part by hand, in start order, and ends them in reverse. */

import type { Registry } from 'prom-client';
import { type PullAuth, pullAuth } from '../../actors/auth/registry/pull-credential.ts';
import { noteUse, startLastUse } from '../../actors/auth/tokens/last-use.ts';
import { ensureAdmin } from '../../actors/auth/users/users.ts';
import { gatewayTokenSigner, gatewayTokenVerifier } from '../../proto/gateway/gateway-token.ts';
import { addressOf as targetAddress } from '../../proto/gateway/routes.ts';
import { NOTIFICATIONS_STREAM } from '../../proto/notify/notification.ts';
import type { Clock } from '../../proto/ports/clock.ts';
import type { Engine } from '../../proto/ports/engine.ts';
import type { HttpServer } from '../../proto/ports/http.ts';
import type { Log } from '../../proto/ports/log.ts';
import type { MetricsSource } from '../../proto/ports/metrics-source.ts';
import type { Service } from '../../proto/service.ts';
import { hostsOfOthers, type RoutedServiceName } from '../../proto/service-paths.ts';
import { databaseClock } from '../../storage/clock.ts';
import { type DbConnection, openDb } from '../../storage/db.ts';
import { start, stop, stopped } from '../../supervision/index.ts';
import { api } from '../../transports/api/api.ts';
import { clientAddress } from '../../transports/api/client-address.ts';
import type { FrontProxies } from '../../transports/gateway/listeners.ts';
import { listen } from '../../transports/http/index.ts';
import type { Environment, Ports } from '../config/config.ts';
import type { Secrets } from '../config/data-dir.ts';
import { platformKeys, sshHostKeys } from '../config/platform-keys.ts';
import { auditMetrics } from '../observability/audit-metrics.ts';
import { processMetrics, servicePages } from '../observability/pages.ts';
import { openAuthentication } from './authentication.ts';
import { openBus, withBusHealth } from './bus.ts';
import { installServiceRoutes, openGateway, serviceRoutes } from './gateway.ts';
import type { LiveCertificate } from './live-certificate.ts';
import { authorityOf, dnsOf, openMappedHosts } from './mapped-hosts.ts';
import { formerNode, openMembership } from './membership.ts';
import { DEFAULT_REFRESH_MS, openMonitor } from './monitor.ts';
import { NETWORK_HOST, openNetworkApi } from './network.ts';
import { withOperations } from './operations.ts';
import { relayOnce } from './relay.ts';
import { openAuth } from './roles/auth.ts';
import { openCompute } from './roles/compute.ts';
import { openNotify } from './roles/notify.ts';
import type { RoleParts } from './roles/role.ts';
import { bringUpToDate } from './schema.ts';
import { noteSshAddress, reachable, type SshAddress } from './ssh-address.ts';
import { Teardown } from './teardown.ts';

/** What the platform is built from. */
interface PlatformOptions {
  readonly environment: Environment;
  readonly secrets: Secrets;
  readonly database: DbConnection;
  /** Where the process keeps its name in the cluster for the next start: membership.ts. */
  readonly nodeFile?: string | undefined;
  /** Makes the engine; `installation` labels what belongs to this database. */
  readonly engine: (installation: string, pullAuth: PullAuth | undefined) => Promise<Engine>;
  /** Makes what measures its containers; without it only the machine is measured. */
  readonly metrics?: (installation: string) => MetricsSource;
  /** Adds numbers of who starts the platform to its own. */
  readonly onMetrics?: (registry: Registry) => void;
  /** Time between two measurements, ms. Default 5 s. */
  readonly refreshMs?: number;
  /** Folders on the disks that the monitor measures. Default `/`. */
  readonly diskPaths?: readonly string[];
  readonly domain: string;
  readonly host: string;
  readonly ports: Ports;
  /** Of the platform's own host names. */
  readonly certificate: Pick<LiveCertificate, 'context'>;
  /** Proxies in front of the gateway and of the services. */
  readonly proxies?: FrontProxies | undefined;
  /** Takes lines of the gateway's access log; undefined: there is none. */
  readonly accessLog: ((line: string) => void) | undefined;
  /** Whether the gateway keeps responses. */
  readonly isCaching: boolean;
  readonly log: Log;
  /** Whether the start was told to stop: waiting for other servers ends then. */
  readonly isLeaving?: () => boolean;
  /** Lines for the person who waits. */
  readonly onProgress: (line: string) => void;
}

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
  };
  /** Where the gateway's SSH server listens. */
  readonly ssh: { readonly host: string; readonly port: number };
  /**
   * Makes the first administrator when there is none. `generated` is the password if it was generated now: show it at
   * once, it is kept nowhere. Not part of the start: of one that fails nobody would read it, and the next start would
   * find the user there.
   */
  admin(): Promise<{ readonly username: string; readonly generated: string | null }>;
  readonly engine: Engine;
  /**
   * Ends everything in reverse: takes no new work, lets running requests finish, closes streams. Containers keep
   * running.
   */
  stop(): Promise<void>;
}

// uWebSockets.js reads this while it loads: without it a request head of over 4 KiB in several packets is refused.
process.env.UWS_HTTP_MAX_HEADERS_SIZE ??= '16384';

const clock: Clock = { now: Date.now };

/** How long requests in flight may take at the end, ms. */
const DRAIN_MS = 5000;

/** Builds and starts everything. When a part cannot start, those before it are ended and its error is thrown. */
export async function startPlatform(options: PlatformOptions): Promise<Platform> {
  const { environment, secrets, log, onProgress } = options;
  const teardown = new Teardown(log);
  try {
    const db = openDb(options.database, { log, name: 'platform', max: 16 });
    teardown.add('database', () => db.close());
    const sharedClock = databaseClock(db);
    teardown.add('shared clock', async () => sharedClock.close());
    const applied = await bringUpToDate(
      db,
      log,
      options.nodeFile === undefined ? undefined : formerNode(options.nodeFile),
    );
    if (applied.length > 0) onProgress(`database brought up to date (${applied.length} migrations)`);
    const { installation, keys } = await platformKeys(db, secrets.encryptionKey);
    const admin = async () => {
      const { generated } = await ensureAdmin(db, environment.ADMIN_USERNAME, environment.ADMIN_PASSWORD);
      return { username: environment.ADMIN_USERNAME, generated };
    };
    if (environment.ADMIN_PASSWORD !== undefined) await admin();

    const {
      bus,
      problem: busProblem,
      ready: busReady,
    } = openBus({
      environment,
      db,
      log,
      name: `troupe ${installation}`,
      secret: secrets.jwtSecret,
      clock: sharedClock,
    });
    teardown.add('bus', () => bus.close());
    await busReady(onProgress, options.isLeaving ?? (() => false));
    const pulls = pullAuth({ db, clock, jwtSecret: secrets.jwtSecret }, environment.REGISTRY_HOST);
    const engine = await options.engine(installation, pulls);
    teardown.add('engine', () => engine.close());
    const system = start({
      name: 'troupe',
      log,
      onDeadLetter: ({ to, reason }) => log.debug({ to, reason }, 'dead letter'),
    });
    teardown.add('actors', async () => {
      stop(system);
      await stopped(system);
    });
    const lastUse = startLastUse(system, { db, log });
    const { authenticate, streams, changes, tokensChanged } = openAuthentication({
      db,
      secret: secrets.jwtSecret,
      clock,
      log,
      teardown,
      changesAMinute: environment.CHANGES_PER_MINUTE,
      onUse: (tokenId, at) => noteUse(lastUse, tokenId, at),
    });

    const membership = await openMembership({
      database: options.database,
      nodeFile: options.nodeFile,
      system,
      bus,
      log,
      onProgress,
      isShared: environment.NATS_URL !== undefined,
      isLeaving: options.isLeaving,
      secret: secrets.jwtSecret,
    });
    teardown.add('membership', () => membership.leave());

    await bus.ensureStream(NOTIFICATIONS_STREAM);
    const metrics = processMetrics(system);
    options.onMetrics?.(metrics.registry);
    const parts: RoleParts = {
      environment,
      domain: options.domain,
      db,
      bus,
      busProblem,
      system,
      log,
      clock,
      jwtSecret: secrets.jwtSecret,
      authenticate,
      streams,
      tokensChanged,
      metrics,
    };
    const partsOf = (service: string): RoleParts => ({ ...parts, log: log.child({ service }) });
    const { home } = membership;
    const auth = await openAuth(partsOf('auth'), home);
    // Known once the gateway listens.
    let sshAddress: SshAddress | undefined;
    const compute = await openCompute(partsOf('compute'), home, {
      engine,
      keys,
      sshAddress: () => sshAddress,
      takenPorts: Object.values(options.ports),
    });
    const notify = await openNotify(partsOf('notify'), environment.NATS_URL === undefined ? undefined : home);
    relayOnce(system, { db, bus, home, log });
    await membership.join();

    const isVouched = gatewayTokenVerifier(secrets.jwtSecret, sharedClock);
    const addressOf = (name: RoutedServiceName) =>
      clientAddress({
        isVouched,
        isTrusted: options.proxies?.isTrusted,
        log,
        hostsOfOthers: hostsOfOthers(name, options.domain),
      });
    auditMetrics(metrics.registry, db);
    const running: { service: Service; target: string }[] = [];
    const monitor = await openMonitor({
      system,
      db,
      bus,
      clock,
      log: log.child({ service: 'monitor' }),
      registry: metrics.registry,
      containers: options.metrics?.(installation),
      diskPaths: options.diskPaths ?? ['/'],
      adminUsername: environment.ADMIN_USERNAME,
      refreshMs: options.refreshMs ?? DEFAULT_REFRESH_MS,
      processName: 'troupe',
      graph: {
        services: () => running,
        hasGateway: true,
        requests: metrics.requests,
        bus: { kind: environment.NATS_URL === undefined ? 'embedded' : 'nats', problem: busProblem },
        engineKind: engine.kind,
      },
    });
    teardown.add('sources of metrics', () => monitor.close());
    const serve = async (name: Exclude<RoutedServiceName, 'net'>, bare: Service): Promise<HttpServer> => {
      // Metrics go on without the broker.
      const service = bare === monitor.service ? bare : withBusHealth(bare, busProblem);
      const handlers = api({
        service,
        authenticate,
        streams,
        changes,
        pages: servicePages(service, metrics.registry, environment),
        domain: options.domain,
        log,
        clientAddress: addressOf(name),
        onReply: metrics.onReply(service.name),
      });
      const server = await listen(
        { host: options.host, port: options.ports[name], ...handlers },
        environment.HTTP_ADAPTER,
        (line) => log.warn({}, line),
      );
      teardown.add(`${service.name} listener`, () => server.close(DRAIN_MS));
      running.push({ service, target: `${urlHost(options.host)}:${server.port}` });
      return server;
    };
    const listeners = {
      auth: await serve('auth', withOperations(auth, system)),
      compute: await serve('compute', compute),
      monitor: await serve('monitor', monitor.service),
      notify: await serve('notify', notify),
    };
    teardown.add('streams of the monitor', async () => monitor.service.drain());

    const { domain, host } = options;
    const network = await openNetworkApi({
      system,
      db,
      log,
      clock,
      environment,
      domain,
      installation,
      authenticate,
      streams,
      changes,
      encryptionKey: secrets.encryptionKey,
      port: options.ports.net,
      clientAddress: addressOf('net'),
      pages: (service) => servicePages(service, metrics.registry, environment),
      onReply: metrics.onReply('network'),
    });
    teardown.add('network listener', () => network.server.close(DRAIN_MS));
    const net = `${NETWORK_HOST}:${network.server.port}`;
    const behind = (server: HttpServer) => `${urlHost(host)}:${server.port}`;
    const routed = [
      { name: 'auth', endpoints: auth.endpoints, target: behind(listeners.auth) },
      { name: 'compute', endpoints: compute.endpoints, target: behind(listeners.compute) },
      { name: 'net', endpoints: network.service.endpoints, target: net },
      { name: 'monitor', endpoints: monitor.service.endpoints, target: behind(listeners.monitor) },
      { name: 'notify', endpoints: notify.endpoints, target: behind(listeners.notify) },
    ];
    // For gateways that run alone: they follow the processes that live.
    const { ADVERTISE_ADDRESS: advertised } = environment;
    const outside = routed.map((one) =>
      advertised === undefined || one.target === net
        ? one
        : { ...one, target: `${advertised}:${targetAddress(one.target).port}` },
    );
    await installServiceRoutes(db, membership.id, domain, outside);
    const sshKeys = { host: await sshHostKeys(db, secrets.encryptionKey), platform: keys.privateKey };
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
      vouch: gatewayTokenSigner(secrets.jwtSecret, sharedClock),
      log: log.child({ service: 'gateway' }),
    });
    teardown.add('gateway', () => gateway.stop(DRAIN_MS));

    sshAddress = await noteSshAddress(db, domain, host, gateway.ports.ssh);
    const url = (server: HttpServer) => `http://${behind(server)}`;
    return {
      urls: {
        auth: url(listeners.auth),
        compute: url(listeners.compute),
        net: `http://${net}`,
        monitor: url(listeners.monitor),
        notify: url(listeners.notify),
        http: `http://${domain}:${gateway.ports.http}`,
        https: `https://${domain}:${gateway.ports.https}`,
      },
      ssh: { host: reachable(host), port: gateway.ports.ssh },
      admin,
      engine,
      stop: () => teardown.run(),
    };
  } catch (error) {
    await teardown.run();
    throw error;
  }
}

/** The same as the host part of a URL. */
function urlHost(host: string): string {
  const address = reachable(host);
  return address.includes(':') ? `[${address}]` : address;
}
