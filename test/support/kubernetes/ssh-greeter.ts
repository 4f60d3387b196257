/** A loopback address on whose port 22 something greets as an SSH server does. */
import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';

/** Takes an address of 127.0.0.0/8 that nobody else has. Needs root. */
export async function startGreeter(): Promise<{ readonly address: string; close(): Promise<void> }> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined);
    socket.once('close', () => sockets.delete(socket));
    socket.end('SSH-2.0-greeter\r\n');
    socket.resume();
  });
  const part = (): number => 1 + Math.floor(Math.random() * 250);
  const address = `127.${part()}.${part()}.${part()}`;
  server.listen(22, address);
  await once(server, 'listening');
  return {
    address,
    close: async () => {
      const closed = once(server, 'close');
      server.close();
      for (const socket of sockets) socket.destroy();
      await closed;
    },
  };
}
