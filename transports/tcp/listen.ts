/** Takes raw connections, as sockets or, where nobody needs a socket, as wires. */
import { createServer, type Server, type Socket } from 'node:net';
import { plainAddress } from '../http/address.ts';
import type { Admission } from './admission.ts';
import { HandleWire } from './handle-wire.ts';
import { takeHandles } from './handles.ts';
import type { Wire } from './wire.ts';
import { usesHandles, wireOf } from './wires.ts';

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
  const server = serverOf(admission, onConnection);
  const bound = await listen(server, host, port);
  return { port: bound, close: () => new Promise((resolve) => server.close(() => resolve())) };
}

/** The same with paused wires. Where handles are known, a connection never becomes a socket: that is most of its memory. */
export async function listenWires(
  host: string,
  port: number,
  admission: Admission,
  onConnection: (wire: Wire, address: string) => void,
): Promise<RawListener> {
  const server = serverOf(admission, (socket, address) => onConnection(wireOf(socket), address));
  const bound = await listen(server, host, port);
  if (usesHandles())
    takeHandles(server, (handle) => {
      const peer: { address?: string } = {};
      handle.getpeername(peer);
      const address = plainAddress(peer.address);
      if (!admission.enter(address)) {
        handle.reset(() => {});
        return;
      }
      handle.setNoDelay(true);
      onConnection(new HandleWire(handle, { onClosed: () => admission.leave(address) }), address);
    });
  return { port: bound, close: () => new Promise((resolve) => server.close(() => resolve())) };
}

function serverOf(admission: Admission, onConnection: (socket: Socket, address: string) => void): Server {
  return createServer({ allowHalfOpen: true, noDelay: true, pauseOnConnect: false }, (socket) => {
    socket.on('error', () => {});
    const address = plainAddress(socket.remoteAddress);
    if (admission.admit(socket, address)) onConnection(socket, address);
    else socket.resetAndDestroy();
  });
}

async function listen(server: Server, host: string, port: number): Promise<number> {
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
  return typeof bound === 'object' && bound !== null ? bound.port : port;
}
