/** What gateways keep of a program's answers: `--cache`, `troupe port cache`, `troupe hostname cache`. */
import type { CallReply } from '../../client/index.ts';
import type { CacheMode } from '../../proto/gateway/cache-mode.ts';

/** What a person opens: an app that says nothing of caching is shown as it is now. */
export const CACHE_OF_OPENED: CacheMode = 'explicit';

/** A mode, as a sentence. */
export const CACHES: Readonly<Record<CacheMode, string>> = {
  default: 'Gateways keep answers for up to 30 s, also those that say nothing of it.',
  explicit: 'Gateways keep only what an answer itself declares fresh.',
  off: 'Gateways keep no answer.',
};

type CacheOfPort = Pick<CallReply<'listIngress'>['rules'][number], 'port' | 'cache'>;
type CacheOfHostname = Pick<CallReply<'listMappings'>['domains'][number], 'domain' | 'cache'>;

/** The modes of a container's ports and hostnames: one, where all have it; else each. Empty without any. */
export function cacheText(rules: readonly CacheOfPort[], mappings: readonly CacheOfHostname[]): string {
  const all = [
    ...rules.map(({ port, cache = 'default' }) => ({ what: String(port), cache })),
    ...mappings.map(({ domain, cache = 'default' }) => ({ what: domain, cache })),
  ];
  const modes = [...new Set(all.map(({ cache }) => cache))];
  return modes.length > 1 ? all.map(({ what, cache }) => `${what} ${cache}`).join(', ') : (modes[0] ?? '');
}
