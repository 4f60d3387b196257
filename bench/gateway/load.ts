/** The load of bench/gateway: wrk for requests, and children of our own for what wrk cannot do. */
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { pinned } from './peers.ts';

/** One run of wrk. */
export interface WrkRun {
  readonly requests: number;
  readonly seconds: number;
  readonly p99Ms: number;
}

/** 64 connections, one request at a time on each. Throws when an answer was not 2xx or a connection failed. */
export async function wrk(url: string, host: string | undefined, seconds: number): Promise<WrkRun> {
  const headers = host === undefined ? [] : ['-H', `Host: ${host}`];
  const child = pinned(1, 'wrk', ['-t1', '-c64', `-d${Math.ceil(seconds)}s`, '--latency', ...headers, url]);
  let text = '';
  child.stdout?.setEncoding('utf8').on('data', (chunk: string) => {
    text += chunk;
  });
  await once(child, 'close');
  const [, requests, took] = /(\d+) requests in ([\d.]+)s/.exec(text) ?? [];
  const [, p99, unit = ''] = /99%\s+([\d.]+)(us|ms|s)/.exec(text) ?? [];
  if (requests === undefined || /Non-2xx|Socket errors/.test(text)) throw new Error(`wrk ${url}: ${text}`);
  const scale = { us: 0.001, ms: 1, s: 1000 }[unit] ?? Number.NaN;
  return { requests: Number(requests), seconds: Number(took), p99Ms: Number(p99) * scale };
}

/** What a client says first to a server of this name. */
async function helloFor(name: string): Promise<Buffer> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  const client = connectTls({ host: '127.0.0.1', port, servername: name }).on('error', () => {});
  const [accepted]: Socket[] = await once(server, 'connection');
  const [bytes]: Buffer[] = await once(accepted ?? client, 'data');
  client.destroy();
  accepted?.destroy();
  server.close();
  return Buffer.from(bytes ?? []);
}

/** An origin that sends without end to whoever said anything. Says its port; runs until stdin ends. */
export async function serveFlow(): Promise<void> {
  const block = Buffer.alloc(1 << 20, 'x');
  const server = createServer((socket) => {
    const send = () => {
      while (!socket.destroyed && socket.write(block));
    };
    socket
      .on('error', () => {})
      .on('drain', send)
      .once('data', send);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  process.stdout.write(`${JSON.stringify(server.address())}\n`);
  process.stdin.resume();
  await once(process.stdin, 'end');
  process.exit();
}

/** Reads what flows on 4 connections. Says `{count: bytes, seconds}`. */
export async function flow(port: number, name: string, seconds: number): Promise<void> {
  const hello = await helloFor(name);
  const buffer = Buffer.allocUnsafeSlow(262_144);
  let count = 0;
  const callback = (bytes: number) => {
    count += bytes;
    return true;
  };
  const sockets = Array.from({ length: 4 }, () => connect({ port, host: '127.0.0.1', onread: { buffer, callback } }));
  for (const socket of sockets) {
    await once(socket, 'connect');
    socket.write(hello);
  }
  await counted(() => count, seconds);
  for (const socket of sockets) socket.destroy();
}

/** Connects, says hello, reads to the end, 64 at a time. Says `{count: connections, seconds}`. */
export async function dial(port: number, name: string, seconds: number): Promise<void> {
  const hello = await helloFor(name);
  const buffer = Buffer.allocUnsafeSlow(65_536);
  let count = 0;
  let over = false;
  const one = () => {
    let bytes = 0;
    const socket = connect({
      ...{ port, host: '127.0.0.1' },
      onread: {
        buffer,
        callback: (length: number) => {
          bytes += length;
          return true;
        },
      },
    });
    socket
      .on('error', (error) => fail(error.message))
      .on('close', () => {
        if (bytes === 0) fail('a connection without an answer');
        count++;
        if (!over) one();
      });
    socket.write(hello);
  };
  for (let i = 0; i < 64; i++) one();
  await counted(() => count, seconds);
  over = true;
  process.exit();
}

async function counted(count: () => number, seconds: number): Promise<void> {
  const [before, started] = [count(), performance.now()];
  await new Promise((resolve) => setTimeout(resolve, seconds * 1000));
  process.stdout.write(
    `${JSON.stringify({ count: count() - before, seconds: (performance.now() - started) / 1000 })}\n`,
  );
}

/** Opens `connections`, has one answer on each, and keeps them until stdin ends. Says `{}` when all are idle. */
export async function idle(port: number, request: string, connections: number): Promise<void> {
  const buffer = Buffer.allocUnsafeSlow(65_536);
  for (let opened = 0; opened < connections; opened += 50) {
    await Promise.all(
      Array.from(
        { length: 50 },
        () =>
          new Promise<void>((resolve) => {
            const callback = () => {
              resolve();
              return true;
            };
            const socket = connect({ port, host: '127.0.0.1', onread: { buffer, callback } });
            socket.on('error', (error) => fail(error.message)).write(request);
          }),
      ),
    );
  }
  process.stdout.write('{}\n');
  process.stdin.resume();
  await once(process.stdin, 'end');
  process.exit();
}

function fail(reason: string): never {
  process.stderr.write(`the load failed: ${reason}\n`);
  process.exit(1);
}
