/** Takes raw connections, as sockets or, where nobody needs a socket, as wires. */
import { createServer, isIP, type Server, type Socket } from 'node:net';
import { addressText, plainAddress } from '../../../lib/ip-address.ts';
import { HandleWire } from '../../wire/handle-wire.ts';
import { type TcpHandle, takeHandles } from '../../wire/handles.ts';
import type { IsTrusted } from '../../wire/peer-address.ts';
import type { Wire } from '../../wire/wire.ts';
import { usesHandles, wireOf } from '../../wire/wires.ts';
import type { Admission } from './admission.ts';
import { readFirstOfSocket } from './first-bytes.ts';

/** A listener of raw connections. */
export interface RawListener {
  readonly port: number;
  /**
   * Accepts more than one connection in a turn of the event loop from now on, where `copy` was given. Resolves when it
   * does; asked again it does nothing.
   */
  acceptMore(): Promise<void>;
  /** Takes no more connections; those that are open belong to whoever got them. */
  close(): Promise<void>;
}

export interface RawListenOptions {
  /**
   * Connections from these addresses begin with a header of the PROXY protocol, which names the client; without one
   * they are closed. From any other address it is no header but the client's own bytes.
   */
  readonly proxiesWithHeader?: IsTrusted | undefined;
  readonly copy?: CopyListener | undefined;
}

/**
 * Has `onCopy` take up to `count` copies of what `server` listens on, as they come: handles with descriptors of their
 * own, that another server listens on. libuv accepts one connection of a descriptor in a turn of the event loop: when
 * turns are long, newcomers wait in the kernel's queue behind all who came before them, where nobody can give them a
 * turn. Resolves when there will be no more copies; does not reject. `signal` ends it.
 */
export type CopyListener = (
  server: Server,
  count: number,
  signal: AbortSignal,
  onCopy: (handle: unknown) => void,
) => Promise<void>;

/** Connections that may wait to be accepted. */
const BACKLOG = 4096;
/** Connections accepted in a turn of the event loop beside the first, when asked for. */
const COPIES = 7;
/** How long a proxy may take to say who its client is, ms. */
const HEADER_MS = 5000;

/** Listens on `host` and `port` (0: any) and hands each admitted connection on, with the client's address. */
export function listenRaw(
  host: string,
  port: number,
  admission: Admission,
  onConnection: (socket: Socket, address: string) => void,
  options: RawListenOptions = {},
): Promise<RawListener> {
  return listenWith(host, port, () => serverOf(admission, onConnection, options.proxiesWithHeader), undefined, options);
}

/** The same with paused wires. Where handles are known, no connection becomes a socket: most of its memory. */
export function listenWires(
  host: string,
  port: number,
  admission: Admission,
  onConnection: (wire: Wire, address: string) => void,
  options: RawListenOptions = {},
): Promise<RawListener> {
  const { proxiesWithHeader } = options;
  const make = () => serverOf(admission, (socket, address) => onConnection(wireOf(socket), address), proxiesWithHeader);
  const onHandle = (handle: TcpHandle) => {
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
  };
  // A header before the connection's own bytes is read from a socket.
  const takes = usesHandles() && proxiesWithHeader === undefined;
  return listenWith(host, port, make, takes ? onHandle : undefined, options);
}

async function listenWith(
  host: string,
  port: number,
  make: () => Server,
  onHandle: ((handle: TcpHandle) => void) | undefined,
  { copy: copyListener }: RawListenOptions,
): Promise<RawListener> {
  const first = make();
  const bound = await listen(first, { host, port, backlog: BACKLOG });
  if (onHandle !== undefined) takeHandles(first, onHandle);
  const servers = [first];
  const closing = new AbortController();
  let copying: Promise<void> | undefined;
  const take = (handle: unknown) => {
    const copy = make().on('error', () => {});
    copy.listen(handle, BACKLOG, () => {
      if (onHandle !== undefined) takeHandles(copy, onHandle);
      if (closing.signal.aborted) copy.close();
      else servers.push(copy);
    });
  };
  return {
    port: bound,
    acceptMore: () => {
      copying ??= copyListener?.(first, COPIES, closing.signal, take) ?? Promise.resolve();
      return copying;
    },
    close: async () => {
      closing.abort();
      const closed = servers.map((server) => new Promise<void>((resolve) => server.close(() => resolve())));
      await Promise.all([...closed, copying]);
    },
  };
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

async function listen(server: Server, options: { host: string; port: number; backlog: number }): Promise<number> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(options, () => {
      server.off('error', reject);
      resolve();
    });
  });
  // An accept that fails (no file descriptor left) must not end the process; the next may succeed.
  server.on('error', () => {});
  const bound = server.address();
  return typeof bound === 'object' && bound !== null ? bound.port : options.port;
}

/** Takes the header away and hands the connection on as its client's. */
function readHeader(
  socket: Socket,
  proxy: string,
  admission: Admission,
  onConnection: (socket: Socket, address: string) => void,
): void {
  readFirstOfSocket(socket, HEADER_MS, {
    decide: (bytes) => {
      const header = readProxyHeader(bytes);
      return header === 'incomplete' ? undefined : header;
    },
    onDecided: (header, bytes) => {
      const client = header === 'none' ? undefined : (header.address ?? proxy);
      if (header === 'none' || client === undefined || (client !== proxy && !admission.admitBehind(socket, client))) {
        socket.resetAndDestroy();
        return;
      }
      if (bytes.length > header.length) socket.unshift(bytes.subarray(header.length));
      onConnection(socket, client);
    },
    onTimeout: () => socket.destroy(),
  });
}

/** A header: its length, and the client's address; undefined: the proxy speaks for itself (LOCAL, UNKNOWN). */
interface ProxyHeader {
  readonly length: number;
  readonly address: string | undefined;
}

const SIGNATURE = Buffer.from('\r\n\r\n\0\r\nQUIT\n', 'latin1');
const V1 = Buffer.from('PROXY ', 'latin1');
/** Longest line of version 1, with its CRLF. */
const MAX_V1 = 107;
const HEAD_V2 = 16;
/** Most bytes of addresses and extensions in version 2 that are read past. */
const MAX_V2 = 4096;

/** Reads the header at the beginning of `bytes` (all that came so far). `none`: there is no valid header. */
function readProxyHeader(bytes: Buffer): ProxyHeader | 'incomplete' | 'none' {
  if (begins(bytes, SIGNATURE)) return bytes.length < HEAD_V2 ? 'incomplete' : readV2(bytes);
  if (begins(bytes, V1)) return readV1(bytes);
  return 'none';
}

/** Whether `bytes` begin like `start`, as far as they have come. */
function begins(bytes: Buffer, start: Buffer): boolean {
  const length = Math.min(bytes.length, start.length);
  return bytes.compare(start, 0, length, 0, length) === 0;
}

/** `PROXY TCP4 <from> <to> <from port> <to port>\r\n`, with one space each. */
const LINE = /^PROXY (TCP[46]) (\S+) (\S+) (0|[1-9][0-9]{0,4}) (0|[1-9][0-9]{0,4})$/;

function readV1(bytes: Buffer): ProxyHeader | 'incomplete' | 'none' {
  const end = bytes.indexOf('\r\n');
  if (end < 0) return bytes.length < MAX_V1 ? 'incomplete' : 'none';
  const length = end + 2;
  if (length > MAX_V1) return 'none';
  const line = bytes.toString('latin1', 0, end);
  if (/^PROXY UNKNOWN(?: |$)/.test(line)) return { length, address: undefined };
  const [, kind, from = '', to = '', ...ports] = LINE.exec(line) ?? [];
  const family = kind === 'TCP4' ? 4 : 6;
  if (kind === undefined || isIP(from) !== family || isIP(to) !== family) return 'none';
  return ports.every((port) => Number(port) <= 65_535) ? { length, address: from } : 'none';
}

function readV2(bytes: Buffer): ProxyHeader | 'incomplete' | 'none' {
  const [command = 0, family = 0] = bytes.subarray(12, 14);
  const size = bytes.readUInt16BE(14);
  // Version 2; LOCAL or PROXY.
  if (command >> 4 !== 2 || (command & 15) > 1 || size > MAX_V2) return 'none';
  const length = HEAD_V2 + size;
  if (bytes.length < length) return 'incomplete';
  // LOCAL, or a family that says nothing of addresses: the connection is the proxy's own.
  if ((command & 15) === 0 || family === 0) return { length, address: undefined };
  // TCP over IPv4 or IPv6; datagrams and local sockets do not come this way.
  const bytesOfOne = family === 0x11 ? 4 : family === 0x21 ? 16 : undefined;
  if (bytesOfOne === undefined || size < 2 * bytesOfOne + 4) return 'none';
  return { length, address: addressText(bytes.subarray(HEAD_V2, HEAD_V2 + bytesOfOne)) };
}
