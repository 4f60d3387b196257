/** Clients of the platform's registry that are outside: they know its name and port 443, and no address. */
import { createServer } from 'node:http';
import { connect, type Socket } from 'node:net';
import type { Cleanup } from '../temp.ts';

/** An HTTP proxy that leads whatever is asked for to a port of this machine. Resolves with its URL. */
export async function proxyTo(t: Cleanup, port: number): Promise<string> {
  const open = new Set<Socket>();
  const server = createServer();
  server.on('connect', (_, client: Socket) => {
    const there = connect(port, '127.0.0.1', () => {
      client.write('HTTP/1.1 200 OK\r\n\r\n');
      client.pipe(there).pipe(client);
    });
    for (const socket of [client, there]) {
      open.add(socket);
      socket.on('error', () => {});
      socket.on('close', () => {
        open.delete(socket);
        client.destroy();
        there.destroy();
      });
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(async () => {
    for (const socket of open) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
  });
  const address = server.address();
  if (typeof address !== 'object' || address === null) throw new TypeError('a TCP server has an address');
  return `http://127.0.0.1:${address.port}`;
}
