/** Asks several resolvers for the TXT records of a name, each on its own. */
import { Resolver } from 'node:dns/promises';
import { withTimeout } from '../../../lib/timeout.ts';
import type { TxtAnswer, TxtResolvers } from '../../../proto/ports/dns.ts';

/** Of more, only the first are asked. */
export const MAX_RESOLVERS = 5;
/** A record longer than this, and records past this many, are no proof of anybody. */
const MAX_RECORD_LENGTH = 1024;
const MAX_RECORDS = 100;

export interface ResolverOptions {
  /** Addresses, with `:port` if it is not 53; IPv6 with a port in brackets. None: the system's own. */
  readonly servers: readonly string[];
  /** For one try, of two; a truncated answer is asked again over TCP. Default 2,000 ms. */
  readonly timeoutMs?: number;
}

/** Makes the resolvers. Throws when a server is no IP address. */
export function txtResolvers({ servers, timeoutMs = 2000 }: ResolverOptions): TxtResolvers {
  const system = new Resolver();
  const all = (servers.length > 0 ? servers : system.getServers()).slice(0, MAX_RESOLVERS);
  const resolvers = all.map((server) => {
    // Each alone: a resolver with several servers asks the next only when one fails, and says nothing of it.
    const resolver = new Resolver({ timeout: timeoutMs, tries: 2 });
    resolver.setServers([server]);
    return { server, resolver };
  });
  return {
    lookup: (name) =>
      Promise.all(
        resolvers.map(async ({ server, resolver }) => ({
          resolver: server,
          // However the library retries, the answer comes in time.
          answer: await withTimeout(ask(resolver, name), timeoutMs * 4, tooLate),
        })),
      ),
  };
}

async function ask(resolver: Resolver, name: string): Promise<TxtAnswer> {
  try {
    // An alias would let whoever owns its target speak for this name: a wildcard CNAME is enough.
    const [target] = await unlessEmpty(resolver.resolveCname(name));
    if (target !== undefined) return { kind: 'alias', target };
    const found = await unlessEmpty(resolver.resolveTxt(name));
    const records = found.slice(0, MAX_RECORDS).map((strings) => strings.join(''));
    return { kind: 'records', records: records.filter((record) => record.length <= MAX_RECORD_LENGTH) };
  } catch (error) {
    return { kind: 'failed', reason: reasonOf(codeOf(error)) };
  }
}

async function unlessEmpty<T>(answer: Promise<T[]>): Promise<T[]> {
  try {
    return await answer;
  } catch (error) {
    const code = codeOf(error);
    if (code === 'ENODATA' || code === 'ENOTFOUND') return [];
    throw error;
  }
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : '';
}

function reasonOf(code: string): string {
  switch (code) {
    case 'ETIMEOUT':
      return 'no answer in time';
    case 'ESERVFAIL':
      return 'SERVFAIL';
    case 'EREFUSED':
      return 'it refuses the question';
    case 'ECONNREFUSED':
      return 'it cannot be reached';
    default:
      return 'its answer cannot be read';
  }
}

function tooLate(): TxtAnswer {
  return { kind: 'failed', reason: 'no answer in time' };
}
