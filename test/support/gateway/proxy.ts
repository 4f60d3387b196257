/** A proxy on a free port, origins that say exactly what a test wants, and clients that send bytes. */

import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import { type AddressInfo, connect, createServer as createRaw, type Socket } from 'node:net';
import type { AccessEntry, ProxyDecision, ProxyRequest } from '../../../proto/gateway/traffic.ts';
import type { CacheHook } from '../../../transports/gateway/h1/cache-hook.ts';
import type { ClientTimeouts } from '../../../transports/gateway/h1/client-context.ts';
import type { LoopGuard } from '../../../transports/gateway/h1/loop-detection.ts';
import { HttpProxy } from '../../../transports/gateway/h1/server.ts';
import { type UpstreamLimits, Upstreams } from '../../../transports/gateway/h1/upstreams.ts';
import { Admission } from '../../../transports/gateway/tcp/admission.ts';
import { listenWires } from '../../../transports/gateway/tcp/listen.ts';
import { splice } from '../../../transports/gateway/tcp/splice.ts';
import type { IsTrusted } from '../../../transports/wire/peer-address.ts';
import type { Cleanup } from '../temp.ts';
import { until } from '../until.ts';

export interface TestProxy {
  readonly port: number;
  readonly proxy: HttpProxy;
  readonly upstreams: Upstreams;
  readonly log: AccessEntry[];
}

/** A proxy that sends everything to `origin` (a port of this machine), or where `route` says. */
export async function openProxy(
  t: Cleanup,
  route: number | ((request: ProxyRequest) => ProxyDecision | Promise<ProxyDecision>),
  options: {
    timeouts?: Partial<ClientTimeouts>;
    limits?: Partial<UpstreamLimits>;
    admission?: Admission;
    cache?: CacheHook;
    isTrusted?: IsTrusted;
    loop?: LoopGuard;
    /** The host that is the platform's own. */
    platformHost?: string;
    /** Ports of origins that are asked for several things at a time. */
    pipelined?: readonly number[];
  } = {},
): Promise<TestProxy> {
  const upstreams = new Upstreams(
    options.limits,
    options.pipelined?.map((port) => ({ host: '127.0.0.1', port })),
    ({ host }) => options.cache?.forget?.(host),
  );
  const log: AccessEntry[] = [];
  const switched: (() => void)[] = [];
  const proxy = new HttpProxy({
    upstreams,
    isTrusted: options.isTrusted,
    loop: options.loop,
    decider: {
      isPlatformHost: (host) => host === options.platformHost,
      decide:
        typeof route === 'function' ? route : ({ target }) => ({ forward: { host: '127.0.0.1', port: route }, target }),
    },
    ...(options.timeouts === undefined ? {} : { timeouts: options.timeouts }),
    ...(options.cache === undefined ? {} : { cache: options.cache }),
    onAccess: (entry) => log.push(entry),
    onSwitch: (client, origin) => switched.push(splice(client, origin, { idleMs: 10_000 })),
  });
  const listener = await listenWires('127.0.0.1', 0, options.admission ?? new Admission(), (wire, address) =>
    proxy.serveWire(wire, listener.port, address),
  );
  t.after(async () => {
    const closed = listener.close();
    for (const end of switched) end();
    await proxy.close(0);
    upstreams.close();
    await closed;
  });
  return { port: listener.port, proxy, upstreams, log };
}

/** An HTTP origin. `onBad` hears of what is no request; without it node answers 400. */
export async function httpOrigin(
  t: Cleanup,
  listener: RequestListener,
  onBad?: (error: NodeJS.ErrnoException) => void,
): Promise<number> {
  const server = createServer(listener);
  if (onBad !== undefined) {
    server.on('clientError', (error: NodeJS.ErrnoException, socket) => {
      onBad(error);
      socket.destroy();
    });
  }
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(async () => {
    server.closeAllConnections();
    server.close();
    await once(server, 'close').catch(() => {});
  });
  return portOf(server.address());
}

/** An origin of bytes: `onConnection` plays it. */
export async function rawOrigin(t: Cleanup, onConnection: (socket: Socket) => void): Promise<number> {
  const open = new Set<Socket>();
  const server = createRaw({ allowHalfOpen: true }, (socket) => {
    open.add(socket);
    socket.on('error', () => {}).on('close', () => open.delete(socket));
    onConnection(socket);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(async () => {
    for (const socket of open) socket.destroy();
    server.close();
    await once(server, 'close').catch(() => {});
  });
  return portOf(server.address());
}

function portOf(address: string | AddressInfo | null): number {
  if (typeof address !== 'object' || address === null) throw new Error('not listening');
  return address.port;
}

/** A client of bytes. */
export interface RawClient {
  readonly socket: Socket;
  /** All that came, as latin1. */
  text(): string;
  send(text: string): void;
  /** Waits until what came matches. */
  sees(pattern: RegExp): Promise<string>;
  /** Waits until something came, or the server ended the connection. */
  answered(): Promise<void>;
  /** Waits until the server ended the connection; all that came. */
  ended(): Promise<string>;
}

export async function rawClient(t: Cleanup, port: number, first?: string): Promise<RawClient> {
  const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
  let text = '';
  let isOver = false;
  socket.on('data', (chunk: Buffer) => {
    text += chunk.toString('latin1');
  });
  socket.on('error', () => {});
  const over = () => {
    isOver = true;
  };
  socket.on('end', over).on('close', over);
  t.after(() => void socket.destroy());
  await once(socket, 'connect');
  if (first !== undefined) socket.write(first, 'latin1');
  return {
    socket,
    text: () => text,
    send: (more) => void socket.write(more, 'latin1'),
    sees: async (pattern) => {
      await until(() => pattern.test(text), { what: `${pattern} in ${JSON.stringify(text.slice(-300))}` });
      return text;
    },
    answered: async () => {
      await until(() => isOver || text !== '', { what: 'an answer' });
    },
    ended: async () => {
      await until(() => isOver, { what: 'the connection ends' });
      return text;
    },
  };
}
