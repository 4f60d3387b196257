/** A real browser through the gateway: an HTTPS page of a name of the platform, with a WebSocket, uploads and many parts at once. */
import assert from 'node:assert/strict';
import { createHash, X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { test } from 'node:test';
import { WebSocketServer } from 'ws';
import { z } from 'zod';
import { openBrowser } from '../support/clients/browser.ts';
import { certificates, openListeners } from '../support/gateway/listeners.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { skipWithout } from '../support/require.ts';
import { until } from '../support/until.ts';

failOnLeaks();

const PAGE = `<!doctype html><title>through the gateway</title>
${Array.from({ length: 30 }, (_, i) => `<script src="/part-${i}.js"></script>`).join('\n')}`;

test('Chromium opens a page over HTTPS with its parts, uploads, and talks over a WebSocket', {
  skip: skipWithout('chromium'),
  timeout: 60_000,
}, async (t) => {
  const server = createServer((incoming, response) => {
    if (incoming.method === 'POST') {
      let length = 0;
      incoming.on('data', (chunk: Buffer) => {
        length += chunk.length;
      });
      incoming.on('end', () => response.end(`${length} bytes over ${incoming.headers['x-forwarded-proto']}`));
      return;
    }
    const isPart = incoming.url?.startsWith('/part-') === true;
    response.setHeader('content-type', isPart ? 'text/javascript' : 'text/html');
    response.end(isPart ? 'window.parts = (window.parts ?? 0) + 1;' : PAGE);
  });
  const sockets = new WebSocketServer({ server });
  sockets.on('connection', (socket, incoming) => {
    socket.on('message', (data, isBinary) =>
      socket.send(isBinary ? data : `${incoming.headers.origin} said ${data}`, { binary: isBinary }),
    );
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(async () => {
    for (const client of sockets.clients) client.terminate();
    server.closeAllConnections();
    server.close();
    await once(server, 'close');
  });
  const address = server.address();
  const { ports, log, long } = await openListeners(
    t,
    typeof address === 'object' && address !== null ? address.port : 0,
  );
  const { own } = await certificates();
  const key = new X509Certificate(own.cert).publicKey.export({ type: 'spki', format: 'der' });
  const origin = `https://page.cloud.test:${ports.https}`;
  const { page, run } = await openBrowser(t, `${origin}/`, [
    '--host-resolver-rules=MAP *.cloud.test 127.0.0.1',
    // Trusts this one key, and nothing else; the rest of the certificate is checked as ever.
    `--ignore-certificate-errors-spki-list=${createHash('sha256').update(key).digest('base64')}`,
  ]);
  assert.equal(await page.title(), 'through the gateway');
  await until(() => run('() => document.readyState === "complete" && window.parts === 30'), {
    what: 'all parts are there',
  });
  assert.equal(
    await run('() => isSecureContext && performance.getEntriesByType("navigation")[0].nextHopProtocol'),
    'http/1.1',
  );
  assert.equal(
    await run('() => fetch("/upload", { method: "POST", body: "x".repeat(2_000_000) }).then((r) => r.text())'),
    '2000000 bytes over https',
  );
  const talked = await run(`() => new Promise((resolve, reject) => {
    const socket = new WebSocket('wss://' + location.host + '/socket');
    socket.binaryType = 'arraybuffer';
    const heard = [];
    socket.onerror = () => reject(new Error('the socket failed'));
    socket.onopen = () => { socket.send('hello'); socket.send(new Uint8Array(500_000)); };
    socket.onmessage = ({ data }) => {
      heard.push(typeof data === 'string' ? data : data.byteLength);
      if (heard.length === 2) socket.close(1000);
    };
    socket.onclose = ({ code }) => resolve([...heard, code]);
  })`);
  assert.deepEqual(z.array(z.unknown()).parse(talked), [`${origin} said hello`, 500_000, 1000]);
  assert.equal(long[0]?.kind, 'upgrade');
  assert.ok(
    log.length >= 33 && log.every(({ status }) => [200, 101].includes(status)),
    JSON.stringify(log.map(({ status }) => status)),
  );
});
