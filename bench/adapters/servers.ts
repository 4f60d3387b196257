/** The servers: the same constant and the same texts from each adapter, and from bare uWebSockets.js. */
import { once } from 'node:events';
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';
import type { Socket } from '../../proto/ports/http.ts';
import { listen } from '../../transports/http/index.ts';

const BODY = JSON.stringify({ text: 'x'.repeat(180) });
/** Sockets that are sent the same text. */
const AT_ONCE = 5;
let sent = 0;

const textOf = () => `{"id":${1e9 + sent++},"title":"Container started","message":"${'y'.repeat(120)}"}`;

/** Serves on one adapter until its stdin ends. */
export async function serveAdapter(name: string): Promise<void> {
  process.env.UWS_HTTP_MAX_HEADERS_SIZE ??= '16384';
  const adapter = name === 'uws' || name === 'node' ? name : 'own';
  const all = new Set<Socket>();
  const accept = () => {
    let mine: Socket | undefined;
    return {
      open: (socket: Socket) => {
        mine = socket;
        all.add(socket);
      },
      message: () => undefined,
      drain: () => undefined,
      close: () => void (mine !== undefined && all.delete(mine)),
    };
  };
  const server = await listen(
    {
      ...{ host: '127.0.0.1', port: 0 },
      onRequest: () => ({ status: 200, headers: [['content-type', 'application/json']], body: BODY }),
      onUpgrade: () => ({ accept: accept() }),
    },
    adapter,
  );
  await serve(server.port, () => pushTo(all, (socket, text) => socket.send(text)));
  await server.close(0);
  process.exit(0);
}

/** The same without anything of ours. */
export async function serveBare(): Promise<void> {
  const uws: typeof import('uWebSockets.js') = createRequire(import.meta.url)('uWebSockets.js');
  const all = new Set<import('uWebSockets.js').WebSocket<unknown>>();
  const app = uws
    .App()
    .ws('/*', { open: (ws) => void all.add(ws), close: (ws) => void all.delete(ws) })
    .any('/*', (response) => {
      response.cork(() => response.writeHeader('content-type', 'application/json').end(BODY));
    });
  const port = await new Promise<number>((resolve) => {
    app.listen('127.0.0.1', 0, (socket) => resolve(socket ? uws.us_socket_local_port(socket) : 0));
  });
  await serve(port, () => pushTo(all, (ws, text) => ws.send(text, false)));
  process.exit(0);
}

function pushTo<T>(all: ReadonlySet<T>, send: (to: T, text: string) => void): void {
  let [count, text] = [0, ''];
  for (const one of all) {
    if (count++ % AT_ONCE === 0) text = textOf();
    send(one, text);
  }
}

async function serve(port: number, round: () => void): Promise<void> {
  process.stdout.write(`${JSON.stringify({ port })}\n`);
  const lines = createInterface({ input: process.stdin });
  lines.on('line', async (line) => {
    if (line === 'collect') {
      // What came and went is given back over a few turns, not at the first collection.
      for (let turn = 0; turn < 4; turn++) {
        await new Promise((resolve) => setTimeout(resolve, 100));
        globalThis.gc?.();
      }
      const { heapUsed, external } = process.memoryUsage();
      process.stdout.write(`${JSON.stringify({ live: heapUsed + external })}\n`);
      return;
    }
    for (let rounds = Number(line.split(' ')[1]); rounds > 0; rounds--) {
      round();
      await new Promise((resolve) => setImmediate(resolve));
    }
  });
  await once(lines, 'close');
}
