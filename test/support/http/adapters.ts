import { loadUws } from '../../../transports/http/uws-library.ts';
import type { Adapter } from './client.ts';

// Read by the library when it loads: the bytes of a request head that comes in pieces (transports/http/limits.ts).
process.env.UWS_HTTP_MAX_HEADERS_SIZE = '16384';

/** The HTTP servers that can be tried here. uWebSockets.js has no binary for some versions of Node.js and of the C library. */
export const ADAPTERS: readonly Adapter[] = loadUws() === undefined ? ['own', 'node'] : ['own', 'uws', 'node'];
