/** Takes raw connections, as sockets or, where nobody needs a socket, as wires. */
import { createServer, type Server, type Socket } from 'node:net';
import type { Admission } from './admission.ts';
import { readFirstOfSocket } from './first-bytes-of-socket.ts';
import { HandleWire } from './handle-wire.ts';
import { takeHandles } from './handles.ts';
import { plainAddress } from './ip-address.ts';
import { readProxyHeader } from './proxy-header.ts';
import type { IsTrusted } from './trusted.ts';
import type { Wire } from './wire.ts';
import { usesHandles, wireOf } from './wires.ts';

/** A listener of raw connections. */
export interface RawListener {
  readonly port: number;
  /** Takes no more connections; those that are open belong to whoever got them. */
  close(): Promise<void>;
}

export interface RawListenOptions {
  /**
   * Connections from these addresses begin with a header of the PROXY protocol, which names the client; without one
   * they are closed. From any other address it is no header but the client's own bytes.
   */
  readonly proxiesWithHeader?: IsTrusted | undefined;
}

/** How long a proxy may take to say who its client is, ms. */
const HEADER_MS = 5000;

/** Listens on `host` and `port` (0: any) and hands each admitted connection on, with the client's address. */
export async function listenRaw(
  host: string,
  port: number,
  admission: Admission,
  onConnection: (socket: Socket, address: string) => void,
  { proxiesWithHeader }: RawListenOptions = {},
): Promise<RawListener> {
  const server = serverOf(admission, onConnection, proxiesWithHeader);
  const bound = await listen(server, host, port);
  return { port: bound, close: () => new Promise((resolve) => server.close(() => resolve())) };
}

/**
 * The same with paused wires. Where handles are known, a connection never becomes a socket: that is most of its memory.
 */
export async function listenWires(
  host: string,
  port: number,
  admission: Admission,
  onConnection: (wire: Wire, address: string) => void,
  { proxiesWithHeader }: RawListenOptions = {},
): Promise<RawListener> {
  const server = serverOf(admission, (socket, address) => onConnection(wireOf(socket), address), proxiesWithHeader);
  const bound = await listen(server, host, port);
  // A header before the connection's own bytes is read from a socket.
  if (usesHandles() && proxiesWithHeader === undefined)
    takeHandles(server, (handle) => {
      const peer: { address?: string } = {};
      handle.getpeername(peer);
      const address = plainAddress(peer.address);
      let wire: Wire | undefined;
      const place = admission.enter(address, { evict: () => wire?.destroy() });
      if (place === undefined) {
        handle.reset(() => {});
        return;
      }
      handle.setNoDelay(true);
      wire = new HandleWire(handle, { onClosed: () => admission.leave(place) });
      onConnection(wire, address);
    });
  return { port: bound, close: () => new Promise((resolve) => server.close(() => resolve())) };
}

function serverOf(
  admission: Admission,
  onConnection: (socket: Socket, address: string) => void,
  proxiesWithHeader: IsTrusted | undefined,
): Server {
  return createServer({ allowHalfOpen: true, noDelay: true, pauseOnConnect: false }, (socket) => {
    socket.on('error', () => {});
    const address = plainAddress(socket.remoteAddress);
    if (!admission.admit(socket, address)) socket.resetAndDestroy();
    else if (proxiesWithHeader?.(address)) readHeader(socket, address, admission, onConnection);
    else onConnection(socket, address);
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

/** Takes the header away and hands the connection on as its client's. */
function readHeader(
  socket: Socket,
  proxy: string,
  admission: Admission,
  onConnection: (socket: Socket, address: string) => void,
): void {
  readFirstOfSocket(
    socket,
    HEADER_MS,
    (bytes) => {
      const header = readProxyHeader(bytes);
      return header === 'incomplete' ? undefined : header;
    },
    (header, bytes) => {
      const client = header === 'none' ? undefined : (header.address ?? proxy);
      if (header === 'none' || client === undefined || (client !== proxy && !admission.admitBehind(socket, client))) {
        socket.resetAndDestroy();
        return;
      }
      if (bytes.length > header.length) socket.unshift(bytes.subarray(header.length));
      onConnection(socket, client);
    },
    () => socket.destroy(),
  );
}
