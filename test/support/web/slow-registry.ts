/** A registry that has no image, and is asked for some of them in vain. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { Cleanup } from '../temp.ts';

/** Its `host:port`. Of repositories named `slow` it says nothing at all; of all others, that they are not there. */
export async function slowRegistry(t: Cleanup): Promise<string> {
  const server = createServer((request, response) => {
    if (request.url === '/v2/') response.end('{}');
    else if (request.url?.includes('/slow/') !== true) {
      const errors = [{ code: 'MANIFEST_UNKNOWN', message: 'manifest unknown' }];
      response.writeHead(404, { 'content-type': 'application/json' }).end(JSON.stringify({ errors }));
    }
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const address = server.address();
  return `127.0.0.1:${typeof address === 'object' && address !== null ? address.port : 0}`;
}
