/** `troupe up`: everything in one process. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { withTimeout } from '../../lib/waiting.ts';
import { BusError } from '../../proto/ports/bus.ts';
import { EngineError } from '../../proto/ports/engine.ts';
import type { Log } from '../../proto/ports/log.ts';
import type { UserLimits } from '../../proto/user-limits.ts';
import type { DbConnection } from '../../storage/db.ts';
import { noteGoodStart } from '../../storage/embedded/server.ts';
import { dockerEngine } from '../../transports/engines/docker/engine.ts';
import { keepPrivateDockerd, privateDockerHost } from '../../transports/engines/docker/host/private-dockerd.ts';
import { dockerMetrics } from '../../transports/engines/docker/stats/metrics.ts';
import { keepCertificate, type LiveCertificate } from '../../transports/gateway/tls/live-certificate.ts';
import { ListenError } from '../../transports/http/index.ts';
import { ownAddress } from '../../transports/http/listen-error.ts';
import { CliError } from '../config/cli-error.ts';
import { type Environment, portsWith, readEnvironment, registryPort } from '../config/config.ts';
import { domainsOf } from '../config/containers-domain.ts';
import { openDataDir, openSecrets } from '../config/data-dir.ts';
import { type GatewayFlags, proxiesOf } from '../config/gateway-options.ts';
import { commandLine, hint, programName } from '../config/program.ts';
import { announce, lockDataDir } from '../config/running.ts';
import { userLimitsOf } from '../config/user-limits.ts';
import { databaseServer } from '../node/database.ts';
import { chooseDocker } from '../node/docker.ts';
import { certificateOf, namedCertificate } from '../node/gateway.ts';
import { openKubernetes, openKubernetesMetrics } from '../node/kubernetes.ts';
import { type Platform, startPlatform } from '../node/platform.ts';
import { registryBeside } from '../node/registry/beside.ts';
import { holdersOver } from '../node/registry/holders.ts';
import { pinnedImages } from '../node/registry/pinned.ts';
import { registryProgram } from '../node/registry/process.ts';
import { type OwnRegistry, openOwnRegistry, whyNoRegistry } from '../node/registry/registry.ts';
import { diskPathsOf, nodeName } from '../node/roles/monitor.ts';
import { stopSignal, Teardown } from '../node/shutdown.ts';
import { chooseWires } from '../node/wires.ts';
import { plainLines } from '../observability/log.ts';
import { type LogServiceOptions, openShippedLog } from '../observability/shipped-log.ts';
import { type CommandOptions, progressOn } from './command.ts';
import { refuseTaken, takenPorts } from './free-ports.ts';

/** Options of `troupe up` as the command line gives them. */
export interface UpOptions extends CommandOptions, LogServiceOptions, GatewayFlags {
  readonly domain?: string;
  readonly listen: string;
  readonly portOffset: number;
  readonly install?: boolean;
}

/** Starts the platform, says where it is, and resolves when it was told to stop and has ended. */
export async function up(options: UpOptions): Promise<void> {
  const environment = readEnvironment(process.env);
  const { install = false } = options;
  const ports = portsWith(options.portOffset);
  const person = process.stdout.isTTY && !options.json;
  const shipped = await openShippedLog(environment.LOG_LEVEL ?? (person ? 'error' : 'info'), options, 'troupe');
  const { log } = shipped;
  await chooseWires(environment, log);
  const progress = progressOn(process.stderr);
  const { onProgress, onNotice } = readersOf(progress, person && process.stderr.isTTY, log);
  const domains = domainsOf(options.domain, environment);
  const { domain } = domains;
  const proxies = proxiesOf(options, environment);
  const told = stopSignal();

  const teardown = new Teardown(log);
  try {
    await checkOptions(options, environment, domain, log);
    const taken = await takenPorts(options.listen, ports);
    // Where this very folder's platform has them, the lock says so better.
    if (!existsSync(options.data)) refuseTaken(taken);
    const dataDir = openDataDir(options.data);
    const unlock = lockDataDir(dataDir);
    teardown.add('lock', async () => unlock());
    refuseTaken(taken);
    const secrets = openSecrets(dataDir, environment);
    const isKubernetes = environment.COMPUTE_ENGINE === 'kubernetes';
    const dockerHost = isKubernetes
      ? undefined
      : await chooseDocker({ environment, dataDir, install, log, onProgress });
    if (dockerHost !== undefined && (await privateDockerHost(dataDir)) === dockerHost) {
      const keeper = keepPrivateDockerd({ dataDir, log });
      teardown.add('keeper of the private Docker Engine', () => keeper.close());
    }
    const database = await databaseServer(environment, dataDir, log, onProgress, onNotice);
    teardown.add('database server', () => database.release());
    const parts = { environment, dockerHost, dataDir, domain, log, onProgress };
    const own = await registryFor(options.portOffset, parts, database.connection, teardown);
    const registry = own ?? registryBeside(environment, domain, log);
    const certificate = await keepCertificate(() => certificateOf(options, dataDir, domains, log), log);
    teardown.add('certificate', async () => certificate.close());
    const platform = await startPlatform({
      environment: registry?.environment ?? environment,
      registry,
      secrets,
      database: database.connection,
      nodeFile: join(dataDir, 'node-id'),
      engine: (installation, pullAuth) =>
        dockerHost === undefined
          ? openKubernetes(environment, { installation, log, onProgress, pullAuth })
          : dockerEngine({
              host: dockerHost,
              installation,
              log,
              egressAllow: environment.EGRESS_ALLOW,
              registry: own,
              ...(environment.CONTAINER_SUBNETS === undefined ? {} : { subnetPool: environment.CONTAINER_SUBNETS }),
            }),
      onMetrics: (registry) => shipped.metrics(registry),
      diskPaths: await diskPathsOf({ environment, dataDir, dockerHost }),
      metrics: (installation) =>
        dockerHost === undefined
          ? openKubernetesMetrics(environment, { installation, log })
          : dockerMetrics({ host: dockerHost, installation, node: nodeName(), log }),
      domain,
      host: options.listen,
      ports,
      certificate,
      proxies,
      accessLog: options.accessLog ? plainLines() : undefined,
      isCaching: options.cache,
      log,
      isLeaving: told.received,
      onProgress,
    });
    teardown.add('platform', () => platform.stop());
    const image = environment.DEFAULT_IMAGE ?? platform.engine.baseImage;
    await Promise.race([prepareImage(platform, image, { onProgress, log, isLeaving: told.received }), told.promise]);
    progress.done();
    const withdraw = announce(dataDir, { urls: platform.urls });
    teardown.add('announcement', async () => withdraw());
    if (!told.received()) {
      const admin = await platform.admin();
      process.stdout.write(
        options.json
          ? readyLine(platform, admin, domain)
          : welcome(platform, admin, { certificate, limits: userLimitsOf(environment), data: options.data }),
      );
      log.info({ urls: platform.urls, domain }, 'serving');
      if (environment.DATABASE_URL === undefined) noteServing(dataDir, log, teardown);
    }
    await Promise.race([told.promise, platform.failed]);
    log.info({}, 'stopping');
    const containers = await runningContainers(platform.engine);
    await teardown.run();
    log.info({ containers }, 'stopped');
    if (person)
      process.stdout.write(`Troupe has stopped; ${goOn(containers)}. ${hint('up', options.data)} starts it again.\n`);
  } catch (error) {
    progress.done();
    throw friendly(error);
  } finally {
    await teardown.run();
    await shipped.close();
    told.forget();
  }
}

/** Either a person reads standard error, or a program does: then all of it is lines of the log. */
function readersOf(progress: ReturnType<typeof progressOn>, isPerson: boolean, log: Log) {
  return {
    onProgress: (line: string) => (isPerson ? progress.line(line) : log.info({}, line)),
    onNotice: (line: string) => (isPerson ? progress.keep(line) : log.info({}, line)),
  };
}

/** Removes a database that an upgrade left, once the new one has served. */
function noteServing(dataDir: string, log: Log, teardown: Teardown): void {
  const noted = noteGoodStart(dataDir, log);
  teardown.add('upgrade of the database', () => noted);
}

type RegistryParts = Omit<Parameters<typeof openOwnRegistry>[0], 'port' | 'pinned' | 'holds' | 'limitMb'>;

/** The registry that comes along; undefined where there is to be none, or its program is not there. */
async function registryFor(
  portOffset: number,
  { dockerHost, ...parts }: RegistryParts & { readonly dockerHost: string | undefined },
  connection: DbConnection,
  teardown: Teardown,
): Promise<OwnRegistry | undefined> {
  if (whyNoRegistry(parts.environment, dockerHost) !== undefined) return undefined;
  if (registryProgram() === undefined) {
    const how = 'apt-get install docker-registry, or troupe up --install';
    parts.onProgress(`no image registry is run: docker-registry is not installed (${how})`);
    return undefined;
  }
  const { environment, log } = parts;
  const { holds, limitMb, close } = holdersOver(connection, log);
  teardown.add('database of the image registry', close);
  const pinned = () => pinnedImages(connection, environment, log);
  const registry = await openOwnRegistry({ ...parts, port: registryPort(portOffset), pinned, holds, limitMb });
  teardown.add('image registry', () => registry.close());
  return registry;
}

/** What can be wrong with the options alone is said before anything is started or made. Throws CliError. */
async function checkOptions(options: UpOptions, environment: Environment, domain: string, log: Log): Promise<void> {
  const { listen } = options;
  registryBeside(environment, domain, log);
  namedCertificate(options);
  try {
    await ownAddress(listen);
  } catch (cause) {
    throw new CliError(`--listen is ${listen}, which is no address of this machine.`, { cause });
  }
}

/**
 * Makes the image of new containers present, so that the first one does not wait for it. The platform serves without;
 * when it is leaving (`isLeaving`), nobody needs to hear of it.
 */
async function prepareImage(
  platform: Platform,
  image: string,
  { onProgress, log, isLeaving }: { onProgress: (line: string) => void; log: Log; isLeaving: () => boolean },
): Promise<void> {
  try {
    await platform.engine.ensureImage(image, { always: false, onProgress });
  } catch (error) {
    if (!(error instanceof EngineError)) throw error;
    if (isLeaving()) return;
    const words = `The image of new containers is not ready: ${error.message}. A new container tries it again.`;
    if (process.stdout.isTTY && process.stderr.isTTY) process.stderr.write(`${words}\n`);
    else log.warn({}, words);
  }
}

/** How long a platform that was told to stop waits for the engine to say what runs, ms. */
const COUNT_MS = 2000;

/** How many containers run; undefined when the engine does not say in time. */
async function runningContainers(engine: Platform['engine']): Promise<number | undefined> {
  const count = engine.list().then(
    (containers) => containers.filter(({ phase }) => phase === 'running').length,
    () => undefined,
  );
  return withTimeout(count, COUNT_MS, () => undefined);
}

function goOn(containers: number | undefined): string {
  if (containers === undefined) return 'its containers keep running';
  if (containers === 0) return 'no container is running';
  return containers === 1 ? '1 container keeps running' : `${containers} containers keep running`;
}

type Admin = Awaited<ReturnType<Platform['admin']>>;

/** The one line of --json. `urls.console` is null when the console was not built. */
function readyLine({ urls, ssh }: Platform, admin: Admin, domain: string): string {
  return `${JSON.stringify({
    ready: true,
    urls,
    ssh,
    domain,
    admin: { username: admin.username, password: admin.generated },
  })}\n`;
}

/** What is said besides of where the platform is. */
interface Welcome {
  readonly certificate: LiveCertificate;
  readonly limits: UserLimits;
  readonly data: string;
}

function welcome({ urls, ssh }: Platform, admin: Admin, { certificate, limits, data }: Welcome): string {
  const { authorityFile } = certificate;
  const password =
    admin.generated === null
      ? `your password  (lost? ${hint(`users passwd ${admin.username}`, data)})`
      : `the password  ${admin.generated}  (shown only now)`;
  const console = urls.console === null ? '' : `  Console   ${urls.console}  (open it in a browser)\n`;
  const trust = authorityFile === null ? '' : `            browsers trust it once they know ${authorityFile}\n`;
  return `
Troupe is running.

${console}  Auth      ${urls.auth}
  Compute   ${urls.compute}
  Domains   ${urls.net}
  Monitor   ${urls.monitor}
  Notify    ${urls.notify}
  Gateway   ${urls.https}  (and ${urls.http})
${trust}  SSH       ssh -p ${ssh.port} <container id>@${ssh.host}

  Log in as ${admin.username} with ${password}
  Each user may have ${limits.containers} containers and ${limits.ssh_keys} SSH keys.
            more for one: ${hint('users limits NAME --containers N', data)}; for all: CONTAINERS_PER_USER

Type next, in another terminal:

  ${commandLine(`login --user ${admin.username}`, data)}
  ${programName()} run first --ssh --shell

This makes a container and opens a shell in it. README.md goes on from there.
Ctrl-C stops Troupe; containers keep running.
${programName()} --help lists all commands.
`;
}

function friendly(error: unknown): unknown {
  if (error instanceof ListenError) {
    return new CliError(
      `${error.message}\nAnother program uses the port, or it is not yours to use: try --port-offset N.`,
      { cause: error },
    );
  }
  if (error instanceof BusError || error instanceof EngineError) return new CliError(error.message, { cause: error });
  return error;
}
