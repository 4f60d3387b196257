/** A first deployment that fails says what is left of it, and how that is removed. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { WebSocketServer } from 'ws';
import { troupe } from '../support/cluster/platform.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { tempDir } from '../support/temp.ts';

failOnLeaks();

const ID = 'abcdefghijk1';

/** A platform on which every build fails. `status`: of the container that it makes; `there`: it was made before. */
async function platform(t: TestContext, { status = 'running', there = false } = {}) {
  const container = { id: ID, name: 'shop', status, status_reason: 'It ended.', hostname: `${ID}.compute.x.test` };
  let isThere = there;
  const http = createServer((request, response) => {
    const path = new URL(request.url ?? '', 'http://x').pathname;
    const reply = (body: unknown, code = 200) =>
      response.writeHead(code, { 'content-type': 'application/json' }).end(JSON.stringify(body));
    request.resume();
    if (path.endsWith('/ssh-keys')) return reply({ ssh_keys: [{ id: 1, name: 'laptop' }] });
    if (path.endsWith('/settings')) return reply({ env: {}, secrets: [] });
    if (path.endsWith('/images')) return reply([]);
    if (request.method === 'POST') isThere = true;
    if (path.endsWith('/containers') && request.method === 'GET')
      return reply({ containers: isThere ? [container] : [] });
    if (path.includes('/containers')) return reply(container);
    return reply({ error: 'none', code: 'not_found' }, 404);
  });
  const sockets = new WebSocketServer({ server: http });
  sockets.on('connection', (socket, request) => {
    const words = new URL(request.url ?? '', 'http://x').searchParams.getAll('command');
    const input = { received: 0, written: 0 };
    socket.send(JSON.stringify({ type: 'session', session: 's', resumable: true, cursor: 0, gap: 0, input }));
    const isBuild = words.includes('build');
    if (isBuild) socket.send(Buffer.from('\x02The build failed with exit code 1.\n'));
    if (words.includes('begin')) socket.send(Buffer.from('\x01/root/app/releases/new-1\n'));
    socket.send(JSON.stringify({ type: 'exit', code: isBuild ? 11 : 0 }));
  });
  http.listen(0, '127.0.0.1');
  await once(http, 'listening');
  t.after(() => {
    for (const socket of sockets.clients) socket.terminate();
    sockets.close();
    http.closeAllConnections();
    http.close();
  });
  const address = http.address();
  const folder = await tempDir(t);
  await writeFile(join(folder, 'main.py'), '');
  await writeFile(join(folder, 'troupe.toml'), 'name = "shop"\nbuild = "false"\n');
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  const env = { XDG_CONFIG_HOME: '/nowhere', TROUPE_URL: `http://127.0.0.1:${port}`, TROUPE_TOKEN: 'secret' };
  return (...more: string[]) => troupe(['deploy', folder, ...more], { env });
}

const LEFT =
  /\nThe container shop is new, and is left: `troupe deploy` goes on with it, `troupe rm shop` removes it\.\n$/;

test('the container is left, which is said to people and to programs', async (t) => {
  const deploy = await platform(t);
  const { code, stderr } = await deploy();
  assert.equal(code, 1, stderr);
  assert.match(stderr, /The build failed with exit code 1\.\ntroupe: shop runs no release yet: see above\.\n/);
  assert.match(stderr, LEFT);
  const json = await (await platform(t))('--json');
  const { code: kind, left } = JSON.parse(json.stderr);
  assert.deepEqual([json.code, kind], [1, 'failed']);
  assert.deepEqual(left, { container_id: ID, name: 'shop', remove: `troupe rm ${ID} --yes` });
});

test('so it is when the new container does not run', async (t) => {
  const failed = await (await platform(t, { status: 'failed' }))();
  assert.match(failed.stderr, /troupe: shop failed: It ended\./);
  assert.match(failed.stderr, LEFT);
});

test('of a container that was there before nothing is left', async (t) => {
  const { code, stderr } = await (await platform(t, { there: true }))();
  assert.equal(code, 1);
  assert.match(stderr, /troupe: shop is not changed: see above\.\n$/);
});
