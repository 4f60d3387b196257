/** Requests of the platform itself to an image registry (OCI distribution specification). */
import { z } from 'zod';

/** Which registry is asked. */
export interface RegistryPlace {
  /** `host` or `host:port`, as image references begin. */
  readonly host: string;
  /** `host:port` at which it is asked over plain HTTP; undefined: at `host`. */
  readonly address?: string | undefined;
}

/** Most repositories that are looked at, in pages. */
const MAX_CATALOG = 10_000;
const PAGE = 1000;
/** Most bytes of one answer. */
const MAX_BYTES = 1024 * 1024;

const catalogPage = z.object({ repositories: z.array(z.string()).nullable() });
const tagsPage = z.object({ tags: z.array(z.string()).nullable() });

/** With a token, and until the signal says otherwise. */
interface PlatformAccess {
  readonly token: string;
  readonly signal: AbortSignal;
}

/** See above. All reject when the registry does not answer, or with another status than is expected. */
export function registryRequests({ host, address }: RegistryPlace) {
  const base = address === undefined ? `${schemeOf(host)}://${host}/v2` : `http://${address}/v2`;

  const ask = async (
    method: string,
    path: string,
    { token, signal }: PlatformAccess,
    accept = '*/*',
  ): Promise<Response> => {
    const headers = { authorization: `Bearer ${token}`, accept };
    return fetch(`${base}${path}`, { method, headers, signal });
  };
  const unexpected = ({ status }: Response, path: string) =>
    new Error(`the registry at ${host} answers ${status} for ${path}`);

  /** Undefined: it is not there, or has no tag left. */
  const get = async <S extends z.ZodType>(path: string, asked: PlatformAccess, schema: S) => {
    const response = await ask('GET', path, asked);
    const length = Number(response.headers.get('content-length') ?? 0);
    if (!response.ok || length > MAX_BYTES) {
      await response.body?.cancel();
      if (response.status === 404) return undefined;
      throw unexpected(response, path);
    }
    return schema.parse(await response.json());
  };

  return {
    ask,
    unexpected,
    /** The names of all repositories, or of the first ten thousand. */
    async repositories(asked: PlatformAccess): Promise<string[]> {
      const all: string[] = [];
      while (all.length < MAX_CATALOG) {
        const last = all.length === 0 ? '' : `&last=${encodeURIComponent(all.at(-1) ?? '')}`;
        const page = (await get(`/_catalog?n=${PAGE}${last}`, asked, catalogPage))?.repositories ?? [];
        all.push(...page);
        if (page.length < PAGE) break;
      }
      return all;
    },
    async tags(repository: string, asked: PlatformAccess): Promise<readonly string[]> {
      return (await get(`/${repository}/tags/list`, asked, tagsPage))?.tags ?? [];
    },
  };
}

/** Registries on this machine speak plain HTTP, as Docker takes it; all others HTTPS. */
function schemeOf(host: string): 'http' | 'https' {
  return /^(localhost|127\.\d+\.\d+\.\d+)(:\d+)?$/.test(host) ? 'http' : 'https';
}
