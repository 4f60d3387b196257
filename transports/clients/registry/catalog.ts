/** Lists what an image registry has (OCI distribution specification, sections on catalog and tags). */
import { z } from 'zod';
import type { ImageCatalog } from '../../../proto/ports/engine.ts';

interface CatalogOptions {
  /** `host` or `host:port`, as image references begin. */
  readonly host: string;
  /** `host:port` at which it is asked over plain HTTP; undefined: at `host`. */
  readonly address?: string | undefined;
  /** A token that may list the catalog, and the tags of these repositories. */
  readonly token: (repositories: readonly string[]) => Promise<string>;
  /** Those that the user may pull. */
  readonly mayPull: (username: string, repositories: readonly string[]) => Promise<readonly string[]>;
}

/** Most repositories and references shown to one user. */
const MAX_REPOSITORIES = 100;
const MAX_REFERENCES = 1000;
/** Most repositories looked at, in pages. */
const MAX_CATALOG = 10_000;
const PAGE = 1000;
const TIMEOUT_MS = 5000;
const AT_ONCE = 4;
/** Most bytes of one answer. */
const MAX_BYTES = 1024 * 1024;

const catalogPage = z.object({ repositories: z.array(z.string()).nullable() });
const tagsPage = z.object({ tags: z.array(z.string()).nullable() });

/** The catalog of the registry at `host`. Everything is asked anew at each call, within five seconds. */
export function registryCatalog({ host, address, token, mayPull }: CatalogOptions): ImageCatalog {
  const base = address === undefined ? `${schemeOf(host)}://${host}/v2` : `http://${address}/v2`;

  const get = async <S extends z.ZodType>(path: string, bearer: string, schema: S, signal: AbortSignal) => {
    const response = await fetch(`${base}${path}`, { headers: { authorization: `Bearer ${bearer}` }, signal });
    const length = Number(response.headers.get('content-length') ?? 0);
    if (!response.ok || length > MAX_BYTES) {
      await response.body?.cancel();
      // Deleted meanwhile, or without a tag left.
      if (response.status === 404) return undefined;
      throw new Error(`the registry at ${host} answers ${response.status} for ${path}`);
    }
    return schema.parse(await response.json());
  };

  return {
    list: async ({ username }) => {
      const signal = AbortSignal.timeout(TIMEOUT_MS);
      const all: string[] = [];
      const forCatalog = await token([]);
      while (all.length < MAX_CATALOG) {
        const last = all.length === 0 ? '' : `&last=${encodeURIComponent(all.at(-1) ?? '')}`;
        const page = (await get(`/_catalog?n=${PAGE}${last}`, forCatalog, catalogPage, signal))?.repositories ?? [];
        all.push(...page);
        if (page.length < PAGE) break;
      }
      const repositories = (await mayPull(username, all)).slice(0, MAX_REPOSITORIES);
      if (repositories.length === 0) return [];
      const forTags = await token(repositories);
      const references: string[] = [];
      const waiting = [...repositories];
      const look = async () => {
        for (let name = waiting.shift(); name !== undefined; name = waiting.shift()) {
          const tags = (await get(`/${name}/tags/list`, forTags, tagsPage, signal))?.tags ?? [];
          for (const tag of tags) references.push(`${host}/${name}:${tag}`);
        }
      };
      await Promise.all(Array.from({ length: AT_ONCE }, look));
      return references.sort().slice(0, MAX_REFERENCES);
    },
  };
}

/** Registries on this machine speak plain HTTP, as Docker takes it; all others HTTPS. */
function schemeOf(host: string): 'http' | 'https' {
  return /^(localhost|127\.\d+\.\d+\.\d+)(:\d+)?$/.test(host) ? 'http' : 'https';
}
