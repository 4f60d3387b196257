/** A registry of images that has none. */
import { once } from 'node:events';
import { createServer } from 'node:http';

/** Answers as the registry protocol wants it, on a port of 127.0.0.1: a Docker Engine asks it without TLS. */
export async function startEmptyRegistry(): Promise<{ readonly port: number; close(): Promise<void> }> {
  const server = createServer((request, response) => {
    if (request.url === '/v2/') {
      response.end('{}');
      return;
    }
    response.writeHead(404, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ errors: [{ code: 'MANIFEST_UNKNOWN', message: 'manifest unknown' }] }));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  return {
    port: typeof address === 'object' && address !== null ? address.port : 0,
    close: async () => {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}
