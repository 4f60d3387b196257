import { findProgram, isRoot } from '../run.ts';
import { type DockerEnvironment, searchDocker } from './find-docker.ts';
import { neededPackages } from './install-docker.ts';

/** One thing containers need on this machine. */
export interface DockerFinding {
  readonly name: string;
  readonly ok: boolean;
  /** What was found, or what is missing. */
  readonly what: string;
  /** What to do about it; absent when all is well. */
  readonly how?: string;
}

/** Looks at what the Docker engine needs here, changing nothing. `find` is for tests. */
export async function doctorDocker(
  env: DockerEnvironment,
  find: (program: string) => string | undefined = findProgram,
): Promise<DockerFinding[]> {
  const found = await searchDocker(env);
  const dockerd = find('dockerd');
  const mmdebstrap = find('mmdebstrap');
  const findings: DockerFinding[] = [];
  const install = `apt-get install ${neededPackages.join(' ')}`;
  const denied = found.tried.filter(({ problem }) => problem.includes('EACCES'));
  if (found.host !== undefined) {
    findings.push({ name: 'docker', ok: true, what: `${found.host} answers (API ${found.apiVersion})` });
  } else if (dockerd !== undefined && isRoot() && !env.DOCKER_HOST) {
    findings.push({
      name: 'docker',
      ok: true,
      what: `no engine answers; a private one can be started from ${dockerd}`,
    });
  } else {
    const tried = found.tried.map(({ host, problem }) => `${host}: ${problem}`).join('; ');
    const how = env.DOCKER_HOST
      ? 'start that engine, or unset DOCKER_HOST'
      : denied.length > 0
        ? 'add this user to the group of the socket (usermod -aG docker USER), or run as root'
        : dockerd === undefined
          ? install
          : 'start the Docker service, or run as root';
    findings.push({ name: 'docker', ok: false, what: tried === '' ? 'no engine answers' : tried, how });
  }
  findings.push(
    mmdebstrap === undefined
      ? {
          name: 'mmdebstrap',
          ok: false,
          what: 'builds the base image; not installed',
          how: 'apt-get install mmdebstrap',
        }
      : { name: 'mmdebstrap', ok: true, what: mmdebstrap },
  );
  return findings;
}
