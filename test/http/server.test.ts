import { loadUws } from '../../transports/http/uws-library.ts';
import { conformance } from '../support/http/conformance.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { skipUnless } from '../support/require.ts';

failOnLeaks();
// Read by the library when it loads: the bytes of a request head that comes in pieces (transports/http/limits.ts).
process.env.UWS_HTTP_MAX_HEADERS_SIZE = '16384';

conformance('own', false);
conformance('uws', skipUnless(loadUws() !== undefined, 'uWebSockets.js has no binary for this machine'));
conformance('node', false);
