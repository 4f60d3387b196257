/** The line between a client and the gateway: it can be cut, and lead to another port later. */
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import type { Cleanup } from '../temp.ts';

export interface Line {
  readonly port: number;
  /** Breaks all connections, and new ones until `mend`. */
  cut(): void;
  mend(port: number): void;
  /** The path of the first request of each open connection that is not encrypted: of a WebSocket there is no other. */
  paths(): string[];
}

/** A port of 127.0.0.1 that leads to `target`. */
export async function line(t: Cleanup, target: number): Promise<Line> {
  let to: number | undefined = target;
  const sockets = new Set<Socket>();
  const first = new Map<Socket, string>();
  const server = createServer((near) => {
    const far = to === undefined ? undefined : connect(to, '127.0.0.1');
    if (far === undefined) near.destroy();
    else near.pipe(far).pipe(near);
    near.once('data', (chunk: Buffer) => {
      const path = /^GET (\/[^ ?]*)/.exec(chunk.toString('latin1'))?.[1];
      if (path !== undefined) first.set(near, path);
    });
    for (const socket of [near, far]) {
      if (socket === undefined) continue;
      sockets.add(socket);
      socket.on('error', () => {});
      socket.on('close', () => {
        sockets.delete(socket);
        first.delete(socket);
        near.destroy();
        far?.destroy();
      });
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const cut = () => {
    to = undefined;
    for (const socket of sockets) socket.destroy();
  };
  t.after(() => {
    cut();
    server.close();
  });
  const address = server.address();
  return {
    port: typeof address === 'object' && address !== null ? address.port : 0,
    cut,
    paths: () => [...first.values()],
    mend(port) {
      to = port;
    },
  };
}
