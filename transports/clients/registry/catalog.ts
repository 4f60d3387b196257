/** Lists what an image registry has (OCI distribution specification, sections on catalog and tags). */
import type { ImageCatalog } from '../../../proto/ports/engine.ts';
import { LIBRARY } from '../../../proto/repositories.ts';
import { type RegistryPlace, registryRequests } from './requests.ts';

interface CatalogOptions extends RegistryPlace {
  /** A token that may list the catalog, and the tags of these repositories. */
  readonly token: (repositories: readonly string[]) => Promise<string>;
  /** Those that anybody may pull, besides `library/`: so many of them at most. */
  readonly open: (most: number) => Promise<readonly string[]>;
}

/** Most repositories and references shown to one user. */
const MAX_REPOSITORIES = 100;
const MAX_REFERENCES = 1000;
const TIMEOUT_MS = 5000;
const AT_ONCE = 4;

/** The catalog of the registry at `host`. Everything is asked anew at each call, within five seconds. */
export function registryCatalog({ host, address, token, open }: CatalogOptions): ImageCatalog {
  const requests = registryRequests({ host, address });
  return {
    list: async ({ username }) => {
      const signal = AbortSignal.timeout(TIMEOUT_MS);
      const asked = { token: await token([]), signal, most: MAX_REPOSITORIES };
      const own = await requests.below(`${username}/`, asked);
      const everybodys = await requests.below(`${LIBRARY}/`, asked);
      const all = new Set([...own, ...everybodys, ...(await open(MAX_REPOSITORIES))]);
      const repositories = [...all].slice(0, MAX_REPOSITORIES);
      if (repositories.length === 0) return [];
      const forTags = await token(repositories);
      const references: string[] = [];
      const waiting = [...repositories];
      const look = async () => {
        for (let name = waiting.shift(); name !== undefined; name = waiting.shift())
          for (const tag of await requests.tags(name, { token: forTags, signal }))
            references.push(`${host}/${name}:${tag}`);
      };
      await Promise.all(Array.from({ length: AT_ONCE }, look));
      return references.sort().slice(0, MAX_REFERENCES);
    },
  };
}
