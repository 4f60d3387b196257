/** A server under test and the clients that talk to it, down to the byte. */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import type { HttpServer, HttpServerOptions } from '../../../proto/ports/http.ts';
import { listen } from '../../../transports/http/index.ts';
import type { Cleanup } from '../temp.ts';
import { until } from '../until.ts';

export type Adapter = 'own' | 'uws' | 'node';

/** Opens a server on a free port of 127.0.0.1, closed when `t` ends. Without handlers it answers 404 and refuses upgrades. */
export async function serve(t: Cleanup, adapter: Adapter, options: Partial<HttpServerOptions>): Promise<HttpServer> {
  const server = await listen(
    {
      host: '127.0.0.1',
      port: 0,
      onRequest: () => ({ status: 404, headers: [] }),
      onUpgrade: () => ({ refuse: { status: 404, headers: [] } }),
      ...options,
    },
    adapter,
  );
  t.after(() => server.close(0));
  return server;
}

/** A TCP connection that remembers all it received. */
export class Wire {
  readonly socket: Socket;
  /** Everything received so far, a character a byte. */
  text = '';
  closed = false;

  constructor(socket: Socket) {
    this.socket = socket;
    socket.on('data', (chunk) => {
      this.text += chunk.toString('latin1');
    });
    socket.on('error', () => undefined);
    socket.on('close', () => {
      this.closed = true;
    });
  }

  send(text: string): this {
    this.socket.write(text, 'latin1');
    return this;
  }

  /** Waits until what was received matches, and returns it all. */
  async sees(pattern: RegExp): Promise<string> {
    await until(() => pattern.test(this.text), { what: `${pattern} in ${JSON.stringify(this.text.slice(0, 300))}` });
    return this.text;
  }

  /** Waits for the server to end the connection. */
  async ends(timeoutMs = 10_000): Promise<string> {
    await until(() => this.closed, { what: 'the server to close the connection', timeoutMs });
    return this.text;
  }
}

/** Connects to a server of `serve`. */
export async function wire(t: Cleanup, server: HttpServer): Promise<Wire> {
  const socket = connect(server.port, '127.0.0.1');
  t.after(() => void socket.destroy());
  const result = new Wire(socket);
  await once(socket, 'connect');
  return result;
}

export function url(server: HttpServer, path = '/'): string {
  return `http://127.0.0.1:${server.port}${path}`;
}

/** A request head of lines; the empty line that ends it is added. */
export function head(...lines: string[]): string {
  return [...lines, '', ''].join('\r\n');
}

/** A promise and the function that settles it, for handlers a test holds back. */
export function gate<T = void>(): { readonly opened: Promise<T>; open(value: T): void } {
  let open: (value: T) => void = () => undefined;
  const opened = new Promise<T>((resolve) => {
    open = resolve;
  });
  return { opened, open: (value) => open(value) };
}

/** Waits until a count that has begun to rise is the same twice in a row, 100 ms apart: whoever moves it has stopped. */
export async function settles(count: () => number): Promise<void> {
  let last = 0;
  const still = () => {
    const now = count();
    const same = now > 0 && now === last;
    last = now;
    return same;
  };
  await until(still, { everyMs: 100 });
}
