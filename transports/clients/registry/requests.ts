/** Requests of the platform itself to an image registry (OCI distribution specification). */
import { z } from 'zod';
import { jsonOf, readAtMost } from '../../../lib/input.ts';

/** Which registry is asked. */
export interface RegistryPlace {
  /** `host` or `host:port`, as image references begin. */
  readonly host: string;
  /** `host:port` at which it is asked over plain HTTP; undefined: at `host`. */
  readonly address?: string | undefined;
}

/** Repositories of one answer. */
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

/** `most`: how many names are enough. */
interface ListAccess extends PlatformAccess {
  readonly most?: number;
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
    if (!response.ok) {
      await response.body?.cancel();
      if (response.status === 404) return undefined;
      throw unexpected(response, path);
    }
    // Distribution does not say how long its lists are.
    const body = response.body === null ? Buffer.alloc(0) : await readAtMost(response.body, MAX_BYTES);
    if (body === undefined) throw new Error(`the registry at ${host} answers more than ${MAX_BYTES} bytes for ${path}`);
    return { value: schema.parse(jsonOf(body.toString())), hasMore: response.headers.has('link') };
  };

  return {
    ask,
    unexpected,
    /**
     * The names of all repositories below `prefix`, which ends with a slash; with `most`, of the first at least.
     * Rejects when they cannot all be listed. A name may lead nowhere.
     */
    async below(prefix: string, { most = Number.POSITIVE_INFINITY, ...asked }: ListAccess): Promise<string[]> {
      const found = new Set<string>();
      let last = prefix;
      for (;;) {
        const page = await get(`/_catalog?n=${PAGE}&last=${encodeURIComponent(last)}`, asked, catalogPage);
        const names = page?.value.repositories ?? [];
        for (const name of names) if (name.startsWith(prefix)) found.add(name);
        const end = names.at(-1);
        const isAll = end === undefined || (names.length < PAGE && page?.hasMore !== true);
        if (isAll || found.size >= most || names.some((name) => isPast(name, prefix))) return [...found];
        if (end === last) throw new Error(`the registry at ${host} lists ${end} again and again`);
        // Distribution walks folders: some that others are in come after those, and are left out of the next page.
        for (const name of namesAbove(end)) if (name.startsWith(prefix)) found.add(name);
        last = end;
      }
    },
    async tags(repository: string, asked: PlatformAccess): Promise<readonly string[]> {
      return (await get(`/${repository}/tags/list`, asked, tagsPage))?.value.tags ?? [];
    },
  };
}

/** Registries on this machine speak plain HTTP, as Docker takes it; all others HTTPS. */
function schemeOf(host: string): 'http' | 'https' {
  return /^(localhost|127\.\d+\.\d+\.\d+)(:\d+)?$/.test(host) ? 'http' : 'https';
}

/**
 * Whether a name comes after all that begin with `prefix`, whether the registry takes the slash as the first of all
 * characters, as Distribution does in a folder, or as ASCII has it.
 */
function isPast(name: string, prefix: string): boolean {
  if (name.startsWith(prefix)) return false;
  const slashFirst = (text: string) => text.replaceAll('/', '\0');
  return name > prefix && slashFirst(name) > slashFirst(prefix);
}

/** The names of the folders that a repository's folder is in. */
function namesAbove(name: string): string[] {
  const parts = name.split('/');
  return parts.slice(1).map((_, at) => parts.slice(0, at + 1).join('/'));
}
