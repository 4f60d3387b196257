/** Asks several resolvers for the TXT records of a name, each on its own, and where a name leads. */
import { Resolver } from 'node:dns/promises';
import { withTimeout } from '../../../lib/waiting.ts';
import type { FindAddresses, FindZone, HostAddresses, TxtAnswer, TxtResolvers } from '../../../proto/ports/dns.ts';

/** Of more, only the first are asked. */
export const MAX_RESOLVERS = 5;
/** A record longer than this, and records past this many, are no proof of anybody. */
const MAX_RECORD_LENGTH = 1024;
const MAX_RECORDS = 100;

interface ResolverOptions {
  /** Addresses, with `:port` if it is not 53; IPv6 with a port in brackets. None: the system's own. */
  readonly servers: readonly string[];
  /** For one try, of two; a truncated answer is asked again over TCP. Default 2,000 ms. */
  readonly timeoutMs?: number;
}

const TIMEOUT_MS = 2000;

/** A resolver for each server: one with several asks the next only when one fails, and says nothing of it. */
function resolversOf({ servers, timeoutMs = TIMEOUT_MS }: ResolverOptions) {
  const all = (servers.length > 0 ? servers : new Resolver().getServers()).slice(0, MAX_RESOLVERS);
  return all.map((server) => {
    const resolver = new Resolver({ timeout: timeoutMs, tries: 2 });
    resolver.setServers([server]);
    return { server, resolver };
  });
}

/** Makes the resolvers. Throws when a server is no IP address. */
export function txtResolvers(options: ResolverOptions): TxtResolvers {
  const { timeoutMs = TIMEOUT_MS } = options;
  const resolvers = resolversOf(options);
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
    return { kind: 'failed', reason: REASONS[codeOf(error)] ?? 'its answer cannot be read' };
  }
}

/** What is answered; nothing when there is no such name or record. */
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

const REASONS: Readonly<Record<string, string>> = {
  ETIMEOUT: 'no answer in time',
  ESERVFAIL: 'SERVFAIL',
  EREFUSED: 'it refuses the question',
  ECONNREFUSED: 'it cannot be reached',
};

function tooLate(): TxtAnswer {
  return { kind: 'failed', reason: 'no answer in time' };
}

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

/** Names that are looked at: of a longer hostname those nearest to the top, with two questions each. */
const MAX_NAMES = 5;

/** Makes the function that asks the first server. Throws when a server is no IP address. */
export function findZone(options: ResolverOptions): FindZone {
  const [first] = resolversOf(options);
  return async (hostname) => {
    const labels = hostname.split('.');
    // The last label alone is a top-level domain, which is nobody's to make records in.
    const names = labels.slice(0, -1).map((_, at) => labels.slice(at).join('.'));
    for (const name of names.slice(-MAX_NAMES)) {
      const isFound = first !== undefined && (await isZone(first.resolver, name));
      // Without an answer here, a name further up would be a guess.
      if (isFound !== false) return isFound ? name : undefined;
    }
    return undefined;
  };
}

/** Whether a zone begins at the name; undefined when that could not be found out. */
async function isZone(resolver: Resolver, name: string): Promise<boolean | undefined> {
  const alias = await answered(resolver.resolveCname(name));
  if (alias === undefined) return undefined;
  // The SOA record of an alias would be that of its target.
  if (alias.length > 0) return false;
  const found = await answered(resolver.resolveSoa(name).then(() => [name]));
  return found === undefined ? undefined : found.length > 0;
}
