/** News of domain mappings that other parts act on at once: which hostnames are served, and which no longer. */
import type { Ending } from '../ports/ending.ts';

/**
 * What changed. `verified`: the mapping of a hostname is verified, so it is served and needs a certificate. `removed`:
 * it is gone, whatever state it was in. `changed`: it is served in another way. `all`: news may have been missed, so
 * look for yourself.
 */
export type NetworkNews =
  | { readonly kind: 'verified' | 'removed' | 'changed'; readonly mappingId: string; readonly hostname: string }
  | { readonly kind: 'all' };

/** Where to hear it. */
export interface NetworkNewsSource {
  /** Calls `handler` within a second of every change, on every node. */
  onNews(handler: (news: NetworkNews) => void): Ending;
}
