/** Finds the Docker Engine of `up`, or starts a private one. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { Engine } from '../../proto/ports/engine.ts';
import type { Log } from '../../proto/ports/log.ts';
import { findDocker, searchDocker } from '../../transports/engines/docker/host/find-docker.ts';
import { doctorDocker } from '../../transports/engines/docker/host/install-docker.ts';
import {
  dockerdInstalled,
  privateDockerHost,
  startPrivateDockerd,
} from '../../transports/engines/docker/host/private-dockerd.ts';
import { CliError } from '../config/cli-error.ts';
import type { Environment } from '../config/config.ts';
import { installPackages, missingPackages } from './packages.ts';

interface DockerChoice {
  readonly environment: Environment;
  readonly dataDir: string;
  /** Install packages that are missing. */
  readonly install: boolean;
  readonly log: Log;
  readonly onProgress: (line: string) => void;
  readonly onNotice: (line: string) => void;
}

/**
 * The address of a Docker Engine that answers: DOCKER_HOST, the usual sockets, or a private one under the data folder.
 * With `install`, packages that this machine lacks for a platform are installed before. Throws CliError that says what
 * to do.
 */
export async function chooseDocker({
  environment,
  dataDir,
  install,
  log,
  onProgress,
  onNotice,
}: DockerChoice): Promise<string> {
  // Containers of this folder live in its private engine, whatever else came to this machine since.
  const usesPrivate = environment.DOCKER_HOST === undefined && existsSync(join(dataDir, 'docker'));
  const search = async () => (usesPrivate ? { host: undefined, tried: [] } : await searchDocker(environment));
  const { host: before, tried } = await search();
  let host = before;
  if (host === undefined && environment.DOCKER_HOST !== undefined) {
    throw new CliError(
      `DOCKER_HOST is ${environment.DOCKER_HOST}, but no Docker Engine answers there. Start it, or unset ` +
        `DOCKER_HOST.\n${tried.map(({ problem }) => problem).join('\n')}`,
    );
  }
  const packages = install ? missingPackages(environment, host) : [];
  await installPackages(packages, { onProgress, onNotice });
  // The package of Docker may have started one.
  if (packages.includes('docker.io')) ({ host } = await search());
  if (host !== undefined) return host;
  const missing = 'No Docker Engine answers on this machine';
  if (process.getuid?.() !== 0) {
    const [docker] = await doctorDocker({});
    throw new CliError(
      `${missing} (${docker?.what ?? 'none was found'}), and only root may start one.\nTo do: ` +
        `${docker?.how ?? 'start Docker'}.`,
    );
  }
  if (!dockerdInstalled()) {
    throw new CliError(
      `${missing}. Install it with: apt-get install docker.io mmdebstrap\nOr run: troupe up --install`,
    );
  }
  onProgress('starting a private Docker Engine');
  return (await startPrivateDockerd({ dataDir, log, onProgress })).host;
}

/** The engine of a platform that was set up here; undefined where none answers. `installation`: the platform's. */
export async function engineBeside(
  environment: Environment,
  dataDir: string,
  installation: string,
  log: Log,
): Promise<Engine | undefined> {
  if (environment.COMPUTE_ENGINE === 'kubernetes')
    return (await import('./kubernetes.ts')).openKubernetes(environment, { installation, log, onProgress: () => {} });
  const host = (await privateDockerHost(dataDir)) ?? (await findDocker(environment));
  if (host === undefined) return undefined;
  return (await import('../../transports/engines/docker/engine.ts')).dockerEngine({ host, installation, log });
}
