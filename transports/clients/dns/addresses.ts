/** Asks several resolvers where a host name leads. */
import type { FindAddresses, HostAddresses } from '../../../proto/ports/dns.ts';
import { type ResolverOptions, resolversOf, unlessEmpty } from './resolvers.ts';

/** More of one name are not looked at. */
const MAX_ADDRESSES = 20;

/** Makes the function that asks. Throws when a server is no IP address. */
export function findAddresses(options: ResolverOptions): FindAddresses {
  const resolvers = resolversOf(options);
  return async (hostname): Promise<HostAddresses> => {
    const answers = await Promise.all(
      resolvers.flatMap(({ resolver }) => [resolver.resolve4(hostname), resolver.resolve6(hostname)]).map(answered),
    );
    const addresses = [...new Set(answers.flatMap((answer) => answer ?? []))].slice(0, MAX_ADDRESSES);
    if (addresses.length > 0) return { kind: 'found', addresses };
    // One that is down says nothing; where any failed, what the others do not know may still be there.
    return { kind: answers.includes(undefined) ? 'unknown' : 'none' };
  };
}

/** Undefined: it did not answer, or with an error. */
function answered(answer: Promise<string[]>): Promise<readonly string[] | undefined> {
  return unlessEmpty(answer).catch(() => undefined);
}
