/** The peer: bare uWebSockets.js that sends the same bytes to as many event streams and WebSockets, and does nothing else. */
import type { HttpResponse, WebSocket } from 'uWebSockets.js';
import { once } from 'node:events';
import { createRequire } from 'node:module';

/** Sends `text` to all every `refreshMs`, and counts how often as the monitor does, at `/metrics`. */
export async function serveBare(refreshMs: number, text: string): Promise<void> {
  const uws: typeof import('uWebSockets.js') = createRequire(import.meta.url)('uWebSockets.js');
  const event = Buffer.from(`id: 0123456789ab.1234.pods\ndata: ${text}\n\n`);
  const sockets = new Set<WebSocket<unknown>>();
  const streams = new Set<HttpResponse>();
  let refreshes = 0;
  const app = uws
    .App()
    .ws('/*', {
      open: (ws) => {
        sockets.add(ws);
        ws.send(text, false);
      },
      close: (ws) => void sockets.delete(ws),
    })
    .get('/sse/pod-metrics', (res) => {
      res.onAborted(() => void streams.delete(res));
      res.cork(() => {
        res.writeHeader('content-type', 'text/event-stream; charset=utf-8').writeHeader('cache-control', 'no-store');
        res.write(event);
      });
      streams.add(res);
    })
    .get('/metrics', (res) => void res.end(`troupe_monitor_refreshes_total ${refreshes}\n`));
  const port = await new Promise<number>((resolve) => {
    app.listen('127.0.0.1', 0, (socket) => resolve(socket ? uws.us_socket_local_port(socket) : 0));
  });
  setInterval(() => {
    refreshes += 1;
    for (const res of streams) res.cork(() => res.write(event));
    for (const ws of sockets) ws.send(text, false);
  }, refreshMs);
  process.stdout.write(`${JSON.stringify({ ready: true, port })}\n`);
  await once(process, 'SIGTERM');
  process.exit(0);
}
