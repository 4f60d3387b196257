/** Asks several resolvers where a host name leads. */
import { Resolver } from 'node:dns/promises';
import type { FindAddresses, HostAddresses } from '../../../proto/ports/dns.ts';
import { MAX_RESOLVERS, type ResolverOptions } from './resolvers.ts';

/** More of one name are not looked at. */
const MAX_ADDRESSES = 20;

/** Makes the function that asks. Throws when a server is no IP address. */
export function findAddresses({ servers, timeoutMs = 2000 }: ResolverOptions): FindAddresses {
  const all = (servers.length > 0 ? servers : new Resolver().getServers()).slice(0, MAX_RESOLVERS);
  const resolvers = all.map((server) => {
    const resolver = new Resolver({ timeout: timeoutMs, tries: 2 });
    resolver.setServers([server]);
    return resolver;
  });
  return async (hostname): Promise<HostAddresses> => {
    const answers = await Promise.all(resolvers.flatMap((one) => [ask(one, hostname, 4), ask(one, hostname, 6)]));
    const addresses = [...new Set(answers.flatMap((answer) => answer ?? []))].slice(0, MAX_ADDRESSES);
    if (addresses.length > 0) return { kind: 'found', addresses };
    // One that is down says nothing; where any failed, what the others do not know may still be there.
    return { kind: answers.includes(undefined) ? 'unknown' : 'none' };
  };
}

/** Undefined: it did not answer, or with an error. */
async function ask(resolver: Resolver, hostname: string, family: 4 | 6): Promise<readonly string[] | undefined> {
  try {
    return await (family === 4 ? resolver.resolve4(hostname) : resolver.resolve6(hostname));
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined;
    return code === 'ENODATA' || code === 'ENOTFOUND' ? [] : undefined;
  }
}
