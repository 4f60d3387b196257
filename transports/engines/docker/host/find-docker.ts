import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { errorText } from '../../../../lib/errors.ts';
import { type DockerVariables, dockerAddress } from '../api/address.ts';
import { DockerClient } from '../api/client.ts';

/** What of the environment says where Docker listens. */
export interface DockerEnvironment extends DockerVariables {
  readonly XDG_RUNTIME_DIR?: string | undefined;
  readonly HOME?: string | undefined;
}

/** Where an engine was looked for and what was in the way. */
interface TriedHost {
  readonly host: string;
  readonly problem: string;
}

/** The answer of `searchDocker`: an engine that answers, or what was tried in vain. */
type FoundDocker =
  | { readonly host: string; readonly apiVersion: string; readonly tried: readonly TriedHost[] }
  | { readonly host: undefined; readonly tried: readonly TriedHost[] };

/**
 * Finds an engine that answers: DOCKER_HOST alone when it is set, else the sockets of Docker, rootless Docker and
 * Podman in this order. Sockets that do not exist are passed over silently. Never rejects.
 */
export async function searchDocker(
  env: DockerEnvironment,
  candidates: readonly string[] = usualSockets(env),
): Promise<FoundDocker> {
  const tried: TriedHost[] = [];
  let given: string | undefined;
  try {
    given = dockerAddress(env);
  } catch (error) {
    return { host: undefined, tried: [{ host: env.DOCKER_HOST ?? '', problem: errorText(error) }] };
  }
  const hosts =
    given === undefined ? candidates.filter((path) => existsSync(path)).map((path) => `unix://${path}`) : [given];
  for (const host of hosts) {
    try {
      const client = new DockerClient(host);
      const apiVersion = await client.ping().finally(() => client.close());
      return { host, apiVersion, tried };
    } catch (error) {
      tried.push({ host, problem: errorText(error) });
    }
  }
  return { host: undefined, tried };
}

/** The host of an engine that answers, found as `searchDocker` does, or undefined. */
export async function findDocker(env: DockerEnvironment): Promise<string | undefined> {
  return (await searchDocker(env)).host;
}

function usualSockets(env: DockerEnvironment): string[] {
  const runtime = env.XDG_RUNTIME_DIR || `/run/user/${process.getuid?.() ?? 0}`;
  return [
    '/var/run/docker.sock',
    join(runtime, 'docker.sock'),
    ...(env.HOME ? [join(env.HOME, '.docker/run/docker.sock')] : []),
    '/run/podman/podman.sock',
    join(runtime, 'podman/podman.sock'),
  ];
}

/** Longest wait for the answer, ms. */
const ANSWER_MS = 5000;

/**
 * The folder where the engine at `host` keeps images, layers and volumes; undefined when the engine does not say, or
 * does not run on this machine as far as its address tells. Never rejects.
 */
export async function dockerDataRoot(host: string): Promise<string | undefined> {
  if (!host.startsWith('unix:')) return undefined;
  const client = new DockerClient(host);
  try {
    const info = z.object({ DockerRootDir: z.string().startsWith('/') });
    return (await client.json('GET', '/info', info, { timeoutMs: ANSWER_MS })).DockerRootDir;
  } catch {
    return undefined;
  } finally {
    client.close();
  }
}
