/** `troupe up`: everything in one process. */
import { existsSync } from 'node:fs';
import { withTimeout } from '../../lib/waiting.ts';
import { BusError } from '../../proto/ports/bus.ts';
import { EngineError } from '../../proto/ports/engine.ts';
import type { Log } from '../../proto/ports/log.ts';
import type { UserLimits } from '../../proto/user-limits.ts';
import { noteGoodStart } from '../../storage/embedded/server.ts';
import { keepPrivateDockerd, privateDockerHost } from '../../transports/engines/docker/host/private-dockerd.ts';
import type { LiveCertificate } from '../../transports/gateway/tls/live-certificate.ts';
import { ListenError, ownAddress } from '../../transports/http/listen-error.ts';
import { CliError } from '../config/cli-error.ts';
import { saveCompiledCode } from '../config/compiled-code.ts';
import { type Environment, portsWith, readEnvironment } from '../config/config.ts';
import { domainsOf } from '../config/containers-domain.ts';
import { openDataDir, openSecrets } from '../config/data-dir.ts';
import { type GatewayFlags, proxiesOf } from '../config/gateway-options.ts';
import { commandLine, hint, programName } from '../config/program.ts';
import { announce, lockDataDir } from '../config/running.ts';
import { userLimitsOf } from '../config/user-limits.ts';
import { startDatabase } from '../node/database.ts';
import { chooseDocker } from '../node/docker.ts';
import type { Platform } from '../node/platform.ts';
import { registryBeside } from '../node/registry/beside.ts';
import { stopSignal, Teardown } from '../node/shutdown.ts';
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
      : await chooseDocker({ environment, dataDir, install, log, onProgress, onNotice });
    if (dockerHost !== undefined && (await privateDockerHost(dataDir)) === dockerHost) {
      const keeper = keepPrivateDockerd({ dataDir, log });
      teardown.add('keeper of the private Docker Engine', () => keeper.close());
    }
    const database = startDatabase(environment, dataDir, log, onProgress, onNotice);
    // One that did not start says so below.
    teardown.add('database server', () =>
      database.server.then(
        (server) => server.release(),
        () => {},
      ),
    );
    // PostgreSQL takes about as long to start as the platform takes to load.
    await database.begun;
    const { openPlatform } = await import('./up-platform.ts');
    const { platform, certificate } = await openPlatform({
      options,
      environment,
      secrets,
      dataDir,
      dockerHost,
      domains,
      ports,
      proxies,
      connection: (await database.server).connection,
      log,
      onProgress,
      isLeaving: told.received,
      onMetrics: shipped.metrics,
      teardown,
    });
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
    saveCompiledCode();
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

/** What can be wrong with the options alone is said before anything is started or made. Throws CliError. */
async function checkOptions(options: UpOptions, environment: Environment, domain: string, log: Log): Promise<void> {
  const { listen } = options;
  registryBeside(environment, domain, log);
  if (options.tlsCert !== undefined || options.tlsKey !== undefined)
    (await import('../node/gateway.ts')).namedCertificate(options);
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
