/** Finds the Docker Engine of `up`, starts a private one, or installs it. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline/promises';
import { type Engine, EngineError } from '../../proto/ports/engine.ts';
import type { Log } from '../../proto/ports/log.ts';
import { dockerEngine } from '../../transports/engines/docker/engine.ts';
import { findDocker, searchDocker } from '../../transports/engines/docker/host/find-docker.ts';
import {
  canInstallDocker,
  doctorDocker,
  installDocker,
  mmdebstrapInstalled,
} from '../../transports/engines/docker/host/install-docker.ts';
import {
  dockerdInstalled,
  privateDockerHost,
  startPrivateDockerd,
} from '../../transports/engines/docker/host/private-dockerd.ts';
import { findProgram, runProgram } from '../../transports/engines/docker/run.ts';
import { CliError } from '../config/cli-error.ts';
import type { Environment } from '../config/config.ts';
import { openKubernetes } from './kubernetes.ts';
import { registryProgram } from './registry/process.ts';

interface DockerChoice {
  readonly environment: Environment;
  readonly dataDir: string;
  /** Install Docker when there is none. */
  readonly install: boolean;
  readonly log: Log;
  readonly onProgress: (line: string) => void;
}

/**
 * The address of a Docker Engine that answers: DOCKER_HOST, the usual sockets, a private one under the data folder, or
 * one installed now (asked for first when a person is at the terminal). Throws CliError that says what to do.
 */
export async function chooseDocker({ environment, dataDir, install, log, onProgress }: DockerChoice): Promise<string> {
  // Containers of this folder live in its private engine, whatever else came to this machine since.
  const usesPrivate = environment.DOCKER_HOST === undefined && existsSync(join(dataDir, 'docker'));
  const { host: found, tried } = usesPrivate ? { host: undefined, tried: [] } : await searchDocker(environment);
  if (found !== undefined) return found;
  if (environment.DOCKER_HOST !== undefined) {
    throw new CliError(
      `DOCKER_HOST is ${environment.DOCKER_HOST}, but no Docker Engine answers there. Start it, or unset ` +
        `DOCKER_HOST.\n${tried.map(({ problem }) => problem).join('\n')}`,
    );
  }
  const missing = 'No Docker Engine answers on this machine';
  if (process.getuid?.() !== 0) {
    const [docker] = await doctorDocker({});
    throw new CliError(
      `${missing} (${docker?.what ?? 'none was found'}), and only root may start one.\nTo do: ` +
        `${docker?.how ?? 'start Docker'}.`,
    );
  }
  if (!dockerdInstalled()) {
    if (!install)
      throw new CliError(
        `${missing}. Install it with: apt-get install docker.io mmdebstrap\nOr run: troupe up --install`,
      );
    if (!(await agreed('Docker Engine is not installed. Install docker.io and mmdebstrap with apt-get now?'))) {
      throw new CliError(`${missing}, and you chose not to install it.`);
    }
    await installDocker({ onProgress });
    const system = await findDocker({});
    if (system !== undefined) return system;
  }
  onProgress('starting a private Docker Engine');
  const { host } = await startPrivateDockerd({ dataDir, log, onProgress });
  return host;
}

/** The engine of a platform that was set up here; undefined where none answers. `installation`: the platform's. */
export async function engineBeside(
  environment: Environment,
  dataDir: string,
  installation: string,
  log: Log,
): Promise<Engine | undefined> {
  if (environment.COMPUTE_ENGINE === 'kubernetes')
    return openKubernetes(environment, { installation, log, onProgress: () => {} });
  const host = (await privateDockerHost(dataDir)) ?? (await findDocker(environment));
  return host === undefined ? undefined : dockerEngine({ host, installation, log });
}

/** Installs what builds the base image, when it is missing and may be installed. */
export async function ensureImageTools(install: boolean, onProgress: (line: string) => void): Promise<void> {
  if (!install || mmdebstrapInstalled() || !canInstallDocker()) return;
  if (await agreed('mmdebstrap builds the base image and is not installed. Install it with apt-get now?')) {
    await installDocker({ packages: ['mmdebstrap'], onProgress });
  }
}

/**
 * Whether docker-registry is there; installs it when it is missing and may be installed. Its package's own service is
 * ended and turned off then: it would listen to everybody, and nothing here uses it.
 */
export async function ensureRegistry(install: boolean, onProgress: (line: string) => void): Promise<boolean> {
  if (registryProgram() !== undefined) return true;
  const missing = 'no image registry is run: docker-registry is not installed';
  if (!install || !canInstallDocker()) {
    onProgress(`${missing} (apt-get install docker-registry, or troupe up --install)`);
    return false;
  }
  if (
    !(await agreed('docker-registry keeps images that users push and is not installed. Install it with apt-get now?'))
  )
    return false;
  try {
    await installDocker({ packages: ['docker-registry'], onProgress });
  } catch (error) {
    if (!(error instanceof EngineError)) throw error;
    onProgress(`${missing}: ${error.message}`);
    return false;
  }
  const systemctl = findProgram('systemctl');
  if (systemctl !== undefined && existsSync('/run/systemd/system'))
    await runProgram(systemctl, ['disable', '--now', 'docker-registry.service']);
  return registryProgram() !== undefined;
}

/** Asks when a person is at the terminal; a script that gave --install has answered already. */
async function agreed(question: string): Promise<boolean> {
  if (!process.stdin.isTTY || !process.stderr.isTTY) return true;
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  try {
    const answer = await terminal.question(`${question} [Y/n] `);
    return /^(y|yes|)$/i.test(answer.trim());
  } finally {
    terminal.close();
  }
}
