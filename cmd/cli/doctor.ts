/** `troupe doctor`: says what is missing on this machine and how to get it. */

import { existsSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { doctorDocker } from '../../transports/engines/docker/host/install-docker.ts';
import { type AdapterChoice, ListenError, planAdapter } from '../../transports/http/index.ts';
import { usesHandles } from '../../transports/wire/wires.ts';
import { readEnvironment } from '../config/config.ts';
import type { CommandOptions } from './command.ts';
import { doctorDatabase } from './doctor-database.ts';
import { doctorRunning } from './doctor-running.ts';
import type { Finding } from './finding.ts';

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
    ...(await doctorDocker(environment)),
    ...(await doctorDatabase(options.data, environment)),
    await http(environment.HTTP_ADAPTER),
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

function node(): Finding {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
  const ok = major > 20 || (major === 20 && minor >= 19);
  return {
    name: 'Node.js',
    ok,
    what: `version ${process.versions.node}`,
    ...(ok ? {} : { how: 'install Node.js 20.19 or later' }),
  };
}

const ADAPTERS = {
  own: "Troupe's own server",
  uws: 'uWebSockets.js',
  node: 'node:http with ws',
} as const;

/** Which adapter HTTP_ADAPTER comes to here, and the build of uWebSockets.js that is installed. */
async function http(choice: AdapterChoice): Promise<Finding> {
  const name = 'HTTP server';
  try {
    const { adapter, build, fails, warning } = await planAdapter(choice);
    const parts = [adapter === 'own' && usesHandles() ? `${ADAPTERS.own}, on handles` : ADAPTERS[adapter]];
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
