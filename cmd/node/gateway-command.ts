/** `troupe gateway`: the gateway alone, beside a platform that runs elsewhere on the same database. */
import type { KeyObject } from 'node:crypto';
import { gatewayTokenVerifier } from '../../proto/gateway/gateway-token.ts';
import type { Log } from '../../proto/ports/log.ts';
import { hostsOfOthers, serviceRoutes } from '../../proto/service-paths.ts';
import type { Db } from '../../storage/db.ts';
import { noteGateway } from '../../storage/gateway/gateway-address.ts';
import { getSetting } from '../../storage/settings.ts';
import { clientAddress } from '../../transports/api/client-address.ts';
import { keepCertificate } from '../../transports/gateway/tls/live-certificate.ts';
import { CliError } from '../config/cli-error.ts';
import { saveCompiledCode } from '../config/compiled-code.ts';
import { NETWORK_HOST, readEnvironment } from '../config/config.ts';
import { domainsOf } from '../config/containers-domain.ts';
import { dataDirInUse, openDataDir, openGivenSecrets } from '../config/data-dir.ts';
import { fallbackOf, type GatewayFlags, proxiesOf, readRoutesFile } from '../config/gateway-options.ts';
import { platformKeys, sshHostKeys } from '../config/platform-keys.ts';
import { plainLines } from '../observability/log.ts';
import { servicePages } from '../observability/pages.ts';
import { type LogServiceOptions, openShippedLog } from '../observability/shipped-log.ts';
import { databaseServer } from './database.ts';
import { engineBeside } from './docker.ts';
import { certificateOf, type GatewayPorts, openGateway } from './gateway.ts';
import { authorityOf, dnsOf, openMappedHosts } from './mapped-hosts.ts';
import { listenNetwork, openNetwork } from './network.ts';
import { NO_PLATFORM } from './roles/role.ts';
import { CLOCK, openDatabase, openRuntime } from './runtime.ts';
import { stopSignal, Teardown } from './shutdown.ts';
import { PlatformTools } from './tools.ts';
import { chooseWires } from './wires.ts';

/** Options as the command line gives them. */
export interface GatewayCommandOptions extends LogServiceOptions, GatewayFlags {
  readonly data: string;
  readonly domain?: string;
  readonly listen: string;
  readonly httpPort: number;
  readonly httpsPort: number;
  readonly sshPort: number;
  /** Of the networking API, on loopback. */
  readonly netPort: number;
  readonly fallback?: string;
  readonly routesFile?: string;
  readonly json?: boolean;
}

/** What it opens the database with. */
const OWN_DB = { name: 'gateway', service: 'gateway' } as const;
/** How long answers under way may take at the end, ms. */
const DRAIN_MS = 10_000;

/** Runs until it is told to stop. */
export async function runGateway(options: GatewayCommandOptions): Promise<void> {
  const environment = readEnvironment(process.env);
  const shipped = await openShippedLog(environment.LOG_LEVEL ?? 'info', options, 'gateway');
  const { log } = shipped;
  await chooseWires(environment, log);
  const { domain, containers } = domainsOf(options.domain, environment);
  const fallback = options.fallback === undefined ? undefined : fallbackOf(options.fallback);
  const fileRoutes = options.routesFile === undefined ? [] : readRoutesFile(options.routesFile);
  const proxies = proxiesOf(options, environment);
  const told = stopSignal(environment.LEAVE_DELAY);
  const teardown = new Teardown(log);
  try {
    const dataDir = environment.DATABASE_URL === undefined ? dataDirInUse(options.data) : openDataDir(options.data);
    const certificate = await keepCertificate(() => certificateOf(options, dataDir, { domain, containers }, log), log);
    teardown.add('certificate', async () => certificate.close());
    const server = await databaseServer(environment, dataDir, log, () => {});
    teardown.add('database server', () => server.release());
    const database = await openDatabase(server.connection, { ...OWN_DB, environment, log, teardown });
    const { db, sharedClock } = database;
    const installation = await getSetting(db, 'installation');
    const { encryptionKey, jwtSecret } = openGivenSecrets(dataDir, environment);
    const { busProblem, besides, system, callers, metrics, tracing, failed } = await openRuntime({
      database,
      environment,
      secret: jwtSecret,
      name: 'gateway',
      busName: `troupe gateway ${installation ?? ''}`.trim(),
      // It connects while the gateway serves already; /readyz tells when it does not.
      waitsForBus: false,
      log,
      teardown,
      onProgress: () => {},
      isLeaving: told.received,
    });
    const engine = installation && (await engineBeside(environment, dataDir, installation, log));
    if (!installation || !engine) throw new CliError(NO_PLATFORM);
    besides.add('engine', () => engine.close());
    const sshKeys = await openSshKeys(db, encryptionKey, log);
    const { registry: processRegistry, onReply } = metrics;
    shipped.metrics(processRegistry);
    const mapped = await openMappedHosts({
      system,
      db,
      placement: undefined,
      sealKey: encryptionKey,
      authority: await authorityOf(environment),
      log,
      registry: processRegistry,
      dns: dnsOf(environment, domain),
    });
    teardown.add('mapped hosts', () => mapped.close());
    const client = { isGatewayToken: gatewayTokenVerifier(jwtSecret, sharedClock), isTrusted: proxies?.isTrusted, log };
    const settings = { log, environment, domain };
    const parts = { system, db, clock: CLOCK, installation, encryptionKey, placement: undefined };
    const tools = new PlatformTools(domain, log);
    const network = await openNetwork({ ...settings, ...parts, tools });
    const listener = await listenNetwork(network, {
      ...settings,
      ...callers,
      clientAddress: clientAddress({ ...client, hostsOfOthers: hostsOfOthers('net', domain) }),
      port: options.netPort,
      onReply: onReply('network'),
      trace: tracing?.requests('network'),
      pages: servicePages(network, processRegistry, environment),
    });
    teardown.add('network listener', () => listener.close(DRAIN_MS));
    const net = `${NETWORK_HOST}:${listener.port}`;
    // The routes of the table lead to another process's, which may be on another machine: routes of a file come first.
    const ownRoutes = serviceRoutes(domain, [{ name: 'net', endpoints: network.endpoints, target: net }]);
    const gateway = await openGateway({
      mapped,
      installation,
      fileRoutes: [...fileRoutes, ...ownRoutes.map((route) => ({ ...route, managed: true }))],
      system,
      db,
      engine,
      log,
      domain,
      containersDomain: containers,
      certificate,
      sshKeys,
      fallback,
      proxies,
      busProblem,
      host: options.listen,
      ports: { http: options.httpPort, https: options.httpsPort, ssh: options.sshPort },
      accessLog: options.accessLog ? plainLines() : undefined,
      isCaching: options.cache,
      environment,
      jwtSecret,
      sharedClock,
      processRegistry,
    });
    tools.reach(gateway.control, gateway.ports);
    teardown.add('listeners', () => gateway.stop(DRAIN_MS));
    if (sshKeys !== undefined) await noteGateway(db, domain, options.listen, gateway.ports);
    process.stdout.write(readyLine(options, domain, gateway.ports, sshKeys !== undefined));
    saveCompiledCode();
    await Promise.race([told.signalled, failed]);
    gateway.control.drain();
    await told.promise;
    log.info({}, 'draining');
  } finally {
    await teardown.run();
    await shipped.close();
    told.forget();
  }
}

/** What is printed once it serves. */
function readyLine(
  { json, listen }: GatewayCommandOptions,
  domain: string,
  ports: GatewayPorts,
  hasSsh: boolean,
): string {
  if (json) return `${JSON.stringify({ ready: true, ports, domain })}\n`;
  const where = `The gateway of ${domain} listens on ${listen}, HTTP ${ports.http}, HTTPS ${ports.https}`;
  return hasSsh ? `${where}, SSH ${ports.ssh}.\n` : `${where}.\n${WITHOUT_KEY}\n`;
}

/** What is said where ENCRYPTION_KEY is not given. */
const WITHOUT_KEY =
  'Without ENCRYPTION_KEY these are off here: SSH login to containers, the DNS provider, certificates of mapped ' +
  'hostnames.';

/** Undefined without the key that seals them. */
async function openSshKeys(db: Db, encryptionKey: KeyObject | undefined, log: Log) {
  if (encryptionKey === undefined) {
    log.warn({}, WITHOUT_KEY);
    return undefined;
  }
  const { keys } = await platformKeys(db, encryptionKey);
  return { host: await sshHostKeys(db, encryptionKey), platform: keys.privateKey };
}
