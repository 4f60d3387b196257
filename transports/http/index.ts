import type { HttpServer, HttpServerOptions } from '../../proto/http.ts';
import { ListenError } from './listen-error.ts';
import { listenNode } from './node-server.ts';
import { listenOwn } from './own-server.ts';
import { loadUws } from './uws-library.ts';
import { listenUws } from './uws-server.ts';

/**
 * Opens an HTTP and WebSocket server. `auto` takes uWebSockets.js when its binary loads on this machine, else node:http with ws;
 * both behave as proto/http.ts says (test/http runs one suite on each). Rejects with ListenError `address_unavailable`, or
 * `adapter_unavailable` when `uws` was asked for and does not load.
 */
export async function listen(
  options: HttpServerOptions,
  choice: 'auto' | 'own' | 'uws' | 'node' = 'auto',
): Promise<HttpServer> {
  if (choice === 'node') return listenNode(options);
  if (choice === 'own') return listenOwn(options);
  const library = loadUws();
  if (library !== undefined) return listenUws(library, options);
  if (choice === 'auto') return listenNode(options);
  throw new ListenError('adapter_unavailable', 'The uWebSockets.js binary does not load on this machine.');
}

export { ListenError } from './listen-error.ts';
