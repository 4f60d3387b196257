/** Removes the images of a user from an image registry (OCI distribution specification, section on deletion). */
import type { RemovedImages } from '../../../proto/ports/local-registry.ts';
import { type RegistryPlace, registryRequests } from './requests.ts';

interface RemovalOptions extends RegistryPlace {
  /** A token that may list the catalog, and pull and delete in these repositories. */
  readonly token: (repositories: readonly string[]) => Promise<string>;
}

/** What is not removed by then is removed at the next call. */
const TIMEOUT_MS = 20_000;
/** One token is for so many. */
const AT_ONCE = 50;
/** Repositories that are emptied at a time. */
const SIDE_BY_SIDE = 8;
const MANIFESTS = [
  'application/vnd.oci.image.index.v1+json',
  'application/vnd.oci.image.manifest.v1+json',
  'application/vnd.docker.distribution.manifest.list.v2+json',
  'application/vnd.docker.distribution.manifest.v2+json',
].join(', ');

/**
 * Makes what removes all that tags of the repositories below `<username>/` lead to. Rejects when that cannot be said to
 * be done; again goes on.
 */
export function registryRemoval({ host, address, token }: RemovalOptions) {
  const requests = registryRequests({ host, address });

  /** Whether the registry lets delete. */
  const empty = async (repository: string, asked: { token: string; signal: AbortSignal }): Promise<boolean> => {
    for (const tag of await requests.tags(repository, asked)) {
      const path = `/${repository}/manifests`;
      const found = await requests.ask('HEAD', `${path}/${tag}`, asked, MANIFESTS);
      const digest = found.headers.get('docker-content-digest');
      // It went with another tag that led to the same.
      if (found.status === 404) continue;
      if (!found.ok || digest === null) throw requests.unexpected(found, `${path}/${tag}`);
      const gone = await requests.ask('DELETE', `${path}/${digest}`, asked);
      await gone.body?.cancel();
      if (gone.status === 405) return false;
      if (!gone.ok && gone.status !== 404) throw requests.unexpected(gone, `${path}/${digest}`);
    }
    return true;
  };

  return async (username: string): Promise<RemovedImages> => {
    const signal = AbortSignal.timeout(TIMEOUT_MS);
    const own = await requests.below(`${username}/`, { token: await token([]), signal });
    for (let at = 0; at < own.length; at += AT_ONCE) {
      const some = own.slice(at, at + AT_ONCE);
      const asked = { token: await token(some), signal };
      const waiting = [...some];
      let isKept = false;
      const work = async () => {
        for (let name = waiting.shift(); name !== undefined && !isKept; name = waiting.shift())
          if (!(await empty(name, asked))) isKept = true;
      };
      await Promise.all(Array.from({ length: SIDE_BY_SIDE }, work));
      if (isKept) return 'kept';
    }
    return 'gone';
  };
}
