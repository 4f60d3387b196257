import { EngineError } from '../../../../proto/ports/engine.ts';
import { findProgram, isRoot, runProgram } from '../run.ts';
import { type DockerEnvironment, searchDocker } from './find-docker.ts';

/** What a Debian machine lacks to run containers: dockerd, and what builds the base image. */
const neededPackages: readonly string[] = ['docker.io', 'mmdebstrap'];

/** Packages that build the base image and are missing. Without root, mmdebstrap takes the programs of uidmap. */
export function missingBuilders(find = findProgram, asRoot = isRoot()): ('mmdebstrap' | 'uidmap')[] {
  return [
    ...(find('mmdebstrap') === undefined ? (['mmdebstrap'] as const) : []),
    ...(asRoot || find('newuidmap') !== undefined ? [] : (['uidmap'] as const)),
  ];
}

/** Whether `installDocker` can work here. */
export function canInstallDocker(): boolean {
  return isRoot() && findProgram('apt-get') !== undefined;
}

/**
 * Installs `neededPackages` with apt-get. The package may start a dockerd of the system's; look for one (`findDocker`)
 * before starting a private one. Progress comes as apt's own lines. Rejects with EngineError `refused` when this is not
 * root on a machine with apt, `unavailable` with apt's last words when it fails. `aptGet` is for tests.
 */
export async function installDocker(options: {
  /** Default: `neededPackages`. */
  packages?: readonly string[];
  onProgress?: (line: string) => void;
  aptGet?: string;
}): Promise<void> {
  const packages = options.packages ?? neededPackages;
  const aptGet = options.aptGet ?? (canInstallDocker() ? findProgram('apt-get') : undefined);
  if (aptGet === undefined) {
    throw new EngineError('refused', `Installing needs root and apt: apt-get install ${packages.join(' ')}`);
  }
  const run = async (...args: string[]): Promise<string | undefined> => {
    const { code, tail } = await runProgram(aptGet, args, {
      env: { DEBIAN_FRONTEND: 'noninteractive' },
      onLine: (line) => {
        if (/^(?:Get:|Unpacking |Setting up |E: )/.test(line)) options.onProgress?.(line);
      },
    });
    if (code === 0) return undefined;
    const errors = tail.filter((line) => line.startsWith('E: '));
    return (errors.length > 0 ? errors : tail.slice(-2)).join(' ');
  };
  const install = ['install', '-y', '--no-install-recommends', '-o', 'DPkg::Lock::Timeout=120', ...packages];
  options.onProgress?.(`installing ${packages.join(' ')}`);
  // The lists may be missing or old; without a network the packages may still be in the cache.
  const stale = await run('update');
  const failure = await run(...install);
  if (failure !== undefined) {
    throw new EngineError('unavailable', `apt-get install failed: ${[failure, stale].filter(Boolean).join(' ')}`);
  }
}

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
  const builders = missingBuilders(find);
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
    builders.length > 0
      ? {
          name: 'mmdebstrap',
          ok: false,
          what: `builds the base image; not installed: ${builders.join(', ')}`,
          how: `apt-get install ${builders.join(' ')}`,
        }
      : { name: 'mmdebstrap', ok: true, what: find('mmdebstrap') ?? '' },
  );
  return findings;
}
