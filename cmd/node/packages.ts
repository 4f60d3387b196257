/** What `up --install` installs of Debian: all that is missing, after one question. */
import { existsSync } from 'node:fs';
import { createInterface } from 'node:readline/promises';
import { EngineError } from '../../proto/ports/engine.ts';
import {
  canInstallDocker,
  installDocker,
  missingBuilders,
} from '../../transports/engines/docker/host/install-docker.ts';
import { dockerdInstalled } from '../../transports/engines/docker/host/private-dockerd.ts';
import { findProgram, runProgram } from '../../transports/engines/docker/run.ts';
import type { Environment } from '../config/config.ts';
import { whyNoRegistry } from './registry/choice.ts';
import { registryProgram } from './registry/process.ts';

/** A package and what it is for, as the question says it. */
const PURPOSES = {
  'docker.io': 'runs containers',
  mmdebstrap: 'builds their base image',
  uidmap: 'lets mmdebstrap work without root',
  'docker-registry': 'keeps images that users push',
};
type Package = keyof typeof PURPOSES;

/** What this machine lacks for a platform. `dockerHost`: the Docker Engine that answers, if one does. */
export function missingPackages(environment: Environment, dockerHost: string | undefined): Package[] {
  const missing: Package[] = [];
  if (dockerHost === undefined && environment.DOCKER_HOST === undefined && !dockerdInstalled())
    missing.push('docker.io');
  if (environment.DEFAULT_IMAGE === undefined) missing.push(...missingBuilders());
  if (registryProgram() === undefined && whyNoRegistry(environment, dockerHost) === undefined)
    missing.push('docker-registry');
  return missing;
}

interface Installing {
  readonly onProgress: (line: string) => void;
  /** What a person should find on the screen afterwards, too. */
  readonly onNotice: (line: string) => void;
  /** Whether they may be installed. Default: a person at the terminal is asked; a script has answered by --install. */
  readonly ask?: (question: string) => Promise<boolean>;
  /** For tests. Default: the machine's, where this is root. */
  readonly aptGet?: string;
}

/**
 * Installs packages after one question for all. A no leaves them out, as where this is not root on a machine with apt,
 * which is told: whoever needs one says so. Rejects with EngineError when containers could not be run; without a
 * registry the platform serves, and progress says why there is none.
 */
export async function installPackages(
  packages: readonly Package[],
  { onProgress, onNotice, ask = askPerson, aptGet }: Installing,
): Promise<void> {
  if (packages.length === 0) return;
  if (aptGet === undefined && !canInstallDocker()) {
    onNotice(`not installed here, where only root could: apt-get install ${packages.join(' ')}`);
    return;
  }
  const list = packages.map((name) => `  ${name.padEnd(16)} ${PURPOSES[name]}\n`).join('');
  if (!(await ask(`Not installed here:\n${list}Install with apt-get now?`))) return;
  const install = (names: readonly Package[]) =>
    installDocker({ packages: names, onProgress, ...(aptGet === undefined ? {} : { aptGet }) });
  const needed = packages.filter((name) => name !== 'docker-registry');
  if (needed.length > 0) await install(needed);
  if (needed.length === packages.length) return;
  try {
    await install(['docker-registry']);
  } catch (error) {
    if (!(error instanceof EngineError)) throw error;
    onProgress(error.message);
    return;
  }
  await endServiceOfPackage();
}

/** The service of docker-registry's package would listen to everybody, and nothing here uses it. */
async function endServiceOfPackage(): Promise<void> {
  const systemctl = findProgram('systemctl');
  if (systemctl !== undefined && existsSync('/run/systemd/system'))
    await runProgram(systemctl, ['disable', '--now', 'docker-registry.service']);
}

async function askPerson(question: string): Promise<boolean> {
  if (!process.stdin.isTTY || !process.stderr.isTTY) return true;
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  try {
    const answer = await terminal.question(`${question} [Y/n] `);
    return /^(y|yes|)$/i.test(answer.trim());
  } finally {
    terminal.close();
  }
}
