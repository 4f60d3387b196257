/** The folders whose file systems the monitor measures as the machine's disks. */
import { existsSync } from 'node:fs';
import { dockerDataRoot } from '../../transports/engines/docker/host/find-docker.ts';
import { CliError } from './cli-error.ts';
import type { Environment } from './config.ts';

/** DISK_PATHS, else the data folder and Docker's own if they are here, else `/`. Throws CliError for a missing one. */
export async function diskPathsOf(parts: {
  readonly environment: Pick<Environment, 'DISK_PATHS'>;
  readonly dataDir: string | undefined;
  /** Undefined: containers run on other machines. */
  readonly dockerHost: string | undefined;
}): Promise<readonly string[]> {
  const { environment, dataDir, dockerHost } = parts;
  const given = environment.DISK_PATHS;
  if (given !== undefined) {
    const missing = given.find((path) => !existsSync(path));
    if (missing !== undefined) throw new CliError(`DISK_PATHS names ${missing}, which is not there.`);
    return given;
  }
  // An engine in another mount namespace names a folder that cannot be seen from here.
  const found = [dataDir, dockerHost === undefined ? undefined : await dockerDataRoot(dockerHost)].filter(
    (path): path is string => path !== undefined && existsSync(path),
  );
  return found.length > 0 ? found : ['/'];
}
