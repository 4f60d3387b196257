/** What the gateway's response cache may keep of what a way in leads to (docs/reference/gateway-cache.md). */
import { z } from 'zod';

/**
 * - `default`: by section 4.5 of the interface, also answers that do not say how long they are fresh
 * - `explicit`: only what an answer itself declares fresh (RFC 9111)
 * - `off`: nothing
 */
export const cacheModeSchema = z.enum(['default', 'explicit', 'off']);
export type CacheMode = z.output<typeof cacheModeSchema>;

/** What is shown of a mode: nothing where it is the default. */
export function shownCache(cache: CacheMode): { cache?: Exclude<CacheMode, 'default'> } {
  return cache === 'default' ? {} : { cache };
}
