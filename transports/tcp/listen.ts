/** Takes raw connections. */
import { createServer, type Server, type Socket } from 'node:net';
import { plainAddress } from '../http/address.ts';
import type { Admission } from './admission.ts';

/** A listener of raw connections. */
export interface RawListener {
  readonly port: number;
  /** Takes no more connections; those that are open belong to whoever got them. */
  close(): Promise<void>;
}

/** Listens on `host` and `port` (0: any) and hands each admitted connection on, with the client's address. */
export async function listenRaw(
  host: string,
  port: number,
  admission: Admission,
  onConnection: (socket: Socket, address: string) => void,
): Promise<RawListener> {
  const server: Server = createServer({ allowHalfOpen: true, noDelay: true, pauseOnConnect: false }, (socket) => {
    socket.on('error', () => {});
    const address = plainAddress(socket.remoteAddress);
    if (admission.admit(socket, address)) onConnection(socket, address);
    else socket.resetAndDestroy();
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen({ host, port, backlog: 4096 }, () => {
      server.off('error', reject);
      resolve();
    });
  });
  // An accept that fails (no file descriptor left) must not end the process; the next may succeed.
  server.on('error', () => {});
  const bound = server.address();
  return {
    port: typeof bound === 'object' && bound !== null ? bound.port : port,
    close: () => new Promise((resolve) => server.close(() => resolve())),
  };
}
