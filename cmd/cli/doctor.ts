/** `troupe doctor`: says what is missing on this machine and how to get it, and how the platform is that runs. */
import { existsSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { z } from 'zod';
import { errorText } from '../../lib/errors.ts';
import { type DbConnection, openDb } from '../../storage/db.ts';
import { findBinaries, shippedMajor } from '../../storage/embedded/binaries.ts';
import { EmbeddedError, findEmbedded } from '../../storage/embedded/server.ts';
import { schemaVersion } from '../../storage/migrate.ts';
import { OLDEST_MAJOR, serverMajor } from '../../storage/server-version.ts';
import { type DockerFinding, doctorDocker } from '../../transports/engines/docker/host/install-docker.ts';
import { privateDockerHost } from '../../transports/engines/docker/host/private-dockerd.ts';
import { ListenError, planAdapter } from '../../transports/http/index.ts';
import { handlesFail } from '../../transports/wire/trial.ts';
import { CliError } from '../config/cli-error.ts';
import { DEFAULT_DOMAIN, type Environment, portsWith, readEnvironment } from '../config/config.ts';
import { containersDomain, sharedCookieDomain } from '../config/containers-domain.ts';
import { howToGetNode, nodeRelease } from '../config/node-release.ts';
import { hint } from '../config/program.ts';
import { readRunning } from '../config/running.ts';
import { givenDatabase } from '../node/database.ts';
import { whyNoRegistry } from '../node/registry/choice.ts';
import { lookAtRegistry } from '../node/registry/registry.ts';
import { openLog } from '../observability/log.ts';
import type { CommandOptions } from './command.ts';
import { takenPorts, wordsOf } from './free-ports.ts';

const GIB = 2 ** 30;
const WANTED_DISK = 5 * GIB;

/** As the command line gives them: `listen` and `portOffset` are those that `up` would be given. */
export interface DoctorOptions extends CommandOptions {
  readonly listen: string;
  readonly portOffset: number;
}

/** Prints the findings; exit code 1 when something that is needed is missing. */
export async function doctor(options: DoctorOptions): Promise<void> {
  const environment = readEnvironment(process.env);
  const findings: Finding[] = [
    node(),
    ...(await doctorDocker(await withPrivateDocker(environment, options.data))),
    registry(options.data, environment),
    ...(await doctorDatabase(options.data, environment)),
    await http(environment),
    doctorContainersDomain(environment),
    await disk(options.data),
    ...(await doctorRunning(resolve(options.data), options.listen, options.portOffset)),
  ];
  const ok = findings.every((finding) => finding.ok || finding.optional === true);
  if (options.json) process.stdout.write(`${JSON.stringify({ ok, findings })}\n`);
  else
    process.stdout.write(
      `${report(findings)}\n\n${ok ? 'Troupe can run here.' : 'Troupe cannot run here yet: see above.'}\n`,
    );
  if (!ok) process.exitCode = 1;
}

/** With the private Docker Engine of the folder as DOCKER_HOST, where it runs and no other one is set. */
async function withPrivateDocker(environment: Environment, dataDir: string): Promise<Environment> {
  const host = environment.DOCKER_HOST ?? (await privateDockerHost(resolve(dataDir)));
  return host === undefined ? environment : { ...environment, DOCKER_HOST: host };
}

/** The Node.js that runs, and its support. */
function node(): Finding {
  const { isEnough, supportEnds, isOver, words } = nodeRelease();
  const isFine = isEnough && supportEnds !== undefined && !isOver;
  const how = isFine ? {} : { how: howToGetNode() };
  return { name: 'Node.js', ok: isFine, optional: isEnough, what: `version ${words} (${process.execPath})`, ...how };
}

/** The registry that comes along, or what is there in its place. */
function registry(dataDir: string, environment: Environment): Finding {
  const finding = { name: 'Image registry', ok: true, optional: true } as const;
  const why = whyNoRegistry(environment, undefined);
  if (why !== undefined) return { ...finding, what: `none is run: ${why}` };
  const { program, pid, address } = lookAtRegistry(dataDir);
  if (pid !== undefined) return { ...finding, what: `runs at ${address} (process ${pid})` };
  if (program !== undefined) return { ...finding, what: `${program}; \`troupe up\` runs it` };
  return {
    ...finding,
    ok: false,
    what: 'docker-registry is not installed: users cannot push images of their own',
    how: 'apt-get install docker-registry, or troupe up --install',
  };
}

const ADAPTERS = {
  own: "Troupe's own server",
  uws: 'uWebSockets.js',
  node: 'node:http with ws',
} as const;

/** Which adapter HTTP_ADAPTER comes to here, and the build of uWebSockets.js that is installed. */
async function http(environment: Environment): Promise<Finding> {
  const name = 'HTTP server';
  try {
    const { adapter, build, fails, warning } = await planAdapter(environment.HTTP_ADAPTER);
    const failure = environment.GATEWAY_IO === 'streams' ? 'GATEWAY_IO=streams' : await handlesFail();
    const wires = failure === undefined ? 'on handles' : `on streams (${failure})`;
    const parts = [adapter === 'own' ? `${ADAPTERS.own}, ${wires}` : ADAPTERS[adapter]];
    if (build === undefined) parts.push('no uWebSockets.js for this machine');
    else parts.push(`uWebSockets.js ${build.known?.version ?? 'of an unknown build'}, sha256 ${build.sha256}`);
    if (fails !== undefined && fails.length > 0) parts.push(`which is not strict: ${fails.join('; ')}`);
    else if (build?.known?.conforms === false) parts.push('which is not strict, and taken by HTTP_ADAPTER=uws only');
    const what = parts.join('; ');
    if (warning === undefined) return { name, ok: true, optional: true, what };
    return { name, ok: false, optional: true, what, how: warning };
  } catch (error) {
    if (!(error instanceof ListenError)) throw error;
    return { name, ok: false, what: error.message, how: 'leave HTTP_ADAPTER at auto' };
  }
}

/** Whether pages of containers are apart from the platform's, for browsers. */
export function doctorContainersDomain(
  environment: Pick<Environment, 'PLATFORM_DOMAIN' | 'CONTAINERS_DOMAIN'>,
): Finding {
  const domain = environment.PLATFORM_DOMAIN ?? DEFAULT_DOMAIN;
  const containers = containersDomain(environment, domain);
  const name = 'Domain of containers';
  const shared = sharedCookieDomain(domain, containers);
  if (shared === undefined) return { name, ok: true, optional: true, what: containers };
  const what = `${containers}: their pages can set cookies for ${shared}, which ${domain} gets, too`;
  const how = 'set CONTAINERS_DOMAIN to a domain of its own before others use the platform, such as example-apps.net';
  return { name, ok: false, optional: true, what, how };
}

async function disk(dataDir: string): Promise<Finding> {
  let dir = resolve(dataDir);
  while (!existsSync(dir)) dir = dirname(dir);
  const { bavail, bsize } = await statfs(dir);
  const free = bavail * bsize;
  const ok = free >= WANTED_DISK;
  const what = `${(free / GIB).toFixed(1)} GiB free at ${dir}`;
  return {
    name: 'Disk',
    ok,
    optional: true,
    what,
    ...(ok ? {} : { how: `make room: ${WANTED_DISK / GIB} GiB are wanted for images and data` }),
  };
}

function report(findings: readonly Finding[]): string {
  const width = Math.max(...findings.map(({ name }) => name.length));
  return findings
    .map(({ name, ok, optional, what, how }) => {
      const mark = ok ? 'ok     ' : optional === true ? 'note   ' : 'MISSING';
      return `${mark}  ${name.padEnd(width)}  ${what}${how === undefined ? '' : `\n${' '.repeat(width + 11)}${how}`}`;
    })
    .join('\n');
}

/** One thing that `troupe doctor` looked at. `how` says how to get it, when it is missing. */
interface Finding extends DockerFinding {
  /** Troupe runs without it. */
  readonly optional?: boolean;
}

/** Looks at the server of DATABASE_URL, or at the one under the data folder. Starts and changes nothing. */
async function doctorDatabase(dataDir: string, environment: Environment): Promise<Finding[]> {
  const name = 'PostgreSQL';
  const given = givenDatabase(environment);
  if (given !== undefined) {
    const found = await schemaOf(given, dataDir);
    if ('problem' in found)
      return [{ name, ok: false, what: found.problem, how: 'start that server, or correct DATABASE_URL' }];
    const server = { name, ok: true, what: `the server of DATABASE_URL answers (version ${found.major})` };
    if (found.major >= OLDEST_MAJOR) return [server, found.schema];
    return [{ ...server, ok: false, how: `upgrade it: Troupe needs version ${OLDEST_MAJOR} or newer` }];
  }
  try {
    const here = await findEmbedded(dataDir);
    const { major } = await findBinaries({ home: resolve(dataDir), user: undefined, major: here?.major });
    const brought = await shippedMajor();
    const next =
      here !== undefined && brought !== undefined && brought > major
        ? `; the next start upgrades it to ${brought}`
        : '';
    const server = { name, ok: true, what: `version ${major}, run by Troupe under ${resolve(dataDir)}${next}` };
    if (here?.connection === undefined) return [server];
    const found = await schemaOf(here.connection, dataDir);
    return 'problem' in found ? [{ name, ok: false, what: found.problem }] : [server, found.schema];
  } catch (error) {
    if (!(error instanceof EmbeddedError)) throw error;
    return [{ name, ok: false, what: error.message, how: 'apt-get install postgresql, or give DATABASE_URL' }];
  }
}

async function schemaOf(
  connection: DbConnection,
  dataDir: string,
): Promise<{ readonly major: number; readonly schema: Finding } | { readonly problem: string }> {
  const db = openDb(connection, { log: openLog('silent'), name: 'doctor', max: 1 });
  try {
    return { major: await serverMajor(db), schema: schemaFinding(await schemaVersion(db), dataDir) };
  } catch (error) {
    return { problem: errorText(error, 'it does not answer') };
  } finally {
    await db.close();
  }
}

/** What a schema's version means for this version of Troupe. */
export function schemaFinding({ has, knows }: { has: number; knows: number }, dataDir: string): Finding {
  const name = 'Schema';
  if (has === knows) return { name, ok: true, what: `version ${has}, which is this Troupe's` };
  if (has > knows)
    return {
      name,
      ok: false,
      what: `version ${has}; this Troupe knows ${knows}`,
      how: 'run a newer version of Troupe',
    };
  const what = has === 0 ? 'none yet' : `version ${has} of ${knows}`;
  return { name, ok: true, what: `${what}: the next start, or ${hint('migrate', dataDir)}, brings it up to date` };
}

const healthSchema = z.object({ problems: z.array(z.string()).min(1) });

/** How long a service may take to answer, ms. */
const TIMEOUT_MS = 5000;

/** The health of what runs; where nothing does, whether the ports are free. */
export async function doctorRunning(dataDir: string, listen: string, portOffset: number): Promise<Finding[]> {
  const running = runningOf(dataDir);
  if (running instanceof CliError) return [{ name: 'Platform', ok: false, what: running.message }];
  if (running !== undefined) {
    const found = await Promise.all(Object.entries(running.urls).map(([name, url]) => healthOf(name, url, dataDir)));
    // One that was killed left its note: what it had is free again.
    if (found.some(({ answers }) => answers)) return found.map(({ finding }) => finding);
  }
  const taken = await takenPorts(listen, portsWith(portOffset));
  const runs: Finding = { name: 'Platform', ok: true, what: 'not running' };
  if (taken.length === 0) return [runs, { name: 'Ports', ok: true, what: `all free on ${listen}` }];
  const what = wordsOf(taken).replaceAll('\n', ' ');
  return [runs, { name: 'Ports', ok: false, what, how: 'stop what uses them, or start with --port-offset N' }];
}

function runningOf(dataDir: string): ReturnType<typeof readRunning> | CliError {
  try {
    return readRunning(dataDir);
  } catch (error) {
    if (error instanceof CliError) return error;
    throw error;
  }
}

async function healthOf(
  service: string,
  url: string,
  dataDir: string,
): Promise<{ readonly answers: boolean; readonly finding: Finding }> {
  const name = `Platform, ${service}`;
  try {
    const response = await fetch(`${url}/healthz`, { signal: AbortSignal.timeout(TIMEOUT_MS) });
    const { status } = response;
    if (status === 200) return { answers: true, finding: { name, ok: true, what: `runs and is well at ${url}` } };
    const body = healthSchema.safeParse(await response.json().catch(() => undefined));
    const why = body.success ? body.data.problems.join('; ') : `its health page answers ${status}`;
    return { answers: true, finding: { name, ok: false, what: `runs at ${url}, but is not well: ${why}` } };
  } catch {
    const how = `start it again: ${hint('up', dataDir)}`;
    return { answers: false, finding: { name, ok: false, what: `does not answer at ${url}`, how } };
  }
}
