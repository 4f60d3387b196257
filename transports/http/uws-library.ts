import type * as uws from 'uWebSockets.js';
import { createRequire } from 'node:module';

/** The functions of uWebSockets.js, once its binary for this platform and Node version is loaded. */
export type Uws = typeof uws;

let loaded: Uws | null | undefined;

/** The library goes without its `uWebSockets: 20` reply header after this call, which its own type file does not list. */
function silence(library: object): void {
  const configure: unknown = Reflect.get(library, '_cfg');
  if (typeof configure === 'function') configure('999999990007');
}

/**
 * Loads uWebSockets.js, or returns undefined where it has no binary for this machine: it is an optional dependency.
 *
 * It reads UWS_HTTP_MAX_HEADERS_SIZE while loading: the most bytes of a request head that arrives in several pieces (4,096 when
 * unset). Whoever starts the process sets it to MAX_HEAD_BYTES.
 */
export function loadUws(): Uws | undefined {
  if (loaded === undefined) {
    try {
      const library: Uws = createRequire(import.meta.url)('uWebSockets.js');
      silence(library);
      loaded = library;
    } catch {
      loaded = null;
    }
  }
  return loaded ?? undefined;
}
