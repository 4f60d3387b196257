import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { createServer as createTcpServer } from 'node:net';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { WebSocketServer } from 'ws';
import { UpgradeRefused, websocket } from './clients/websocket.ts';
import { failOnLeaks } from './leaks.ts';
import { projectRoot, supportFile } from './project.ts';
import { skipUnless, skipWithout } from './require.ts';
import { freePort, tempDir } from './temp.ts';
import { until } from './until.ts';

failOnLeaks();

test('until: resolves with what became true, and names what did not', async () => {
  let looks = 0;
  assert.equal(await until(() => (++looks > 2 ? looks : 0)), 3);
  await assert.rejects(
    until(() => false, { timeoutMs: 20, what: 'the moon' }),
    /20 ms: the moon/,
  );
  await assert.rejects(
    until(() => Promise.reject(new Error('broken'))),
    /broken/,
  );
});

test('tempDir: is empty, and goes with its test', async (t) => {
  let path = '';
  await t.test('inside', async (inner) => {
    path = await tempDir(inner);
    await writeFile(join(path, 'file'), 'x');
  });
  assert.match(path, /troupe-test-/);
  assert.equal(existsSync(path), false);
});

test('freePort: can be listened on', async () => {
  const server = createTcpServer().listen(await freePort(), '127.0.0.1');
  await once(server, 'listening');
  server.close();
  await once(server, 'close');
});

test('real parts: a missing one is a reason to skip, or a failure when it is required', (t) => {
  const before = process.env.TROUPE_TEST_REAL;
  t.after(() => {
    if (before === undefined) delete process.env.TROUPE_TEST_REAL;
    else process.env.TROUPE_TEST_REAL = before;
  });
  delete process.env.TROUPE_TEST_REAL;
  assert.equal(skipWithout('sh'), false);
  assert.equal(skipWithout('sh', 'no-such-program'), 'not installed: no-such-program');
  assert.equal(skipUnless(false, 'no moon'), 'no moon');
  process.env.TROUPE_TEST_REAL = 'required';
  assert.equal(skipWithout('sh'), false);
  assert.throws(() => skipWithout('no-such-program'), /required, but not installed: no-such-program/);
});

test('project root: has the package of this project', async () => {
  assert.equal(JSON.parse(await readFile(join(projectRoot, 'package.json'), 'utf8')).name, 'troupe');
});

/** Runs a test file that leaves a server open, in a process of its own. */
async function runLeaky(t: TestContext, leaks: boolean): Promise<{ code: number | null; output: string }> {
  const detector = pathToFileURL(supportFile('leaks')).href;
  const file = join(await tempDir(t), 'leaky.test.mjs');
  const source = `
    import { createServer } from 'node:net';
    import { test } from 'node:test';
    import { failOnLeaks } from '${detector}';
    failOnLeaks({ graceMs: 50 });
    test('passes', (t) => {
      const server = createServer().listen(0, '127.0.0.1');
      ${leaks ? '' : 't.after(() => server.close());'}
    });`;
  await writeFile(file, source);
  const loader = detector.endsWith('.ts') ? ['--import', 'tsx'] : [];
  const child = spawn(process.execPath, [...loader, file], { cwd: projectRoot, stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (chunk: string) => {
      output += chunk;
    });
  }
  const [code] = await once(child, 'close');
  return { code, output };
}

test('leaks: a file that leaves a server open fails, naming it; a tidy one passes', async (t) => {
  const leaky = await runLeaky(t, true);
  assert.equal(leaky.code, 1, leaky.output);
  assert.match(leaky.output, /left open: TCPServerWrap x1|left open: TCPSERVERWRAP x1/i);
  const tidy = await runLeaky(t, false);
  assert.equal(tidy.code, 0, tidy.output);
});

/** A server that refuses /no with 403, and else talks as its clients ask. */
async function server(t: TestContext): Promise<string> {
  const http = createServer();
  const sockets = new WebSocketServer({ noServer: true });
  http.on('upgrade', (request, socket, head) => {
    if (request.url === '/no') {
      socket.end('HTTP/1.1 403 Forbidden\r\nx-why: because\r\ncontent-length: 4\r\n\r\nstop');
      return;
    }
    sockets.handleUpgrade(request, socket, head, (client) => {
      client.send('one');
      client.send(Buffer.from([1, 2]));
      client.send('{"three":3}');
      client.on('message', (data) => client.close(4001, String(data)));
    });
  });
  http.listen(0, '127.0.0.1');
  await once(http, 'listening');
  t.after(() => {
    sockets.close();
    http.close();
  });
  const address = http.address();
  return `ws://127.0.0.1:${typeof address === 'object' ? address?.port : 0}`;
}

test('websocket: frames come in order, and the end with code and reason', async (t) => {
  const socket = await websocket(t, await server(t));
  assert.deepEqual(await socket.next(), { text: 'one' });
  assert.deepEqual(await socket.next(), { binary: Buffer.from([1, 2]) });
  assert.deepEqual(await socket.json(), { three: 3 });
  await assert.rejects(socket.next(20), /no frame within 20 ms/);
  assert.equal(socket.queued(), 0);
  socket.send('enough');
  await assert.rejects(socket.next(), /closed with 4001 enough/);
  assert.deepEqual(await socket.closed, { code: 4001, reason: 'enough' });
});

test('websocket: a frame can be looked for, and text asked for', async (t) => {
  const socket = await websocket(t, await server(t));
  assert.deepEqual(await socket.find((frame) => 'binary' in frame), { binary: Buffer.from([1, 2]) });
  assert.equal(await socket.text(), '{"three":3}');
  assert.equal((await socket.close(1000, 'bye')).code, 1000);
  const other = await websocket(t, await server(t));
  await other.next();
  await assert.rejects(other.text(), /expected text, got 2 bytes/);
});

test('websocket: a refusal tells status, headers and body', async (t) => {
  const refused = websocket(t, `${await server(t)}/no`);
  await assert.rejects(refused, (error) => {
    assert.ok(error instanceof UpgradeRefused);
    assert.deepEqual([error.status, error.body, error.headers['x-why']], [403, 'stop', 'because']);
    return true;
  });
  await assert.rejects(websocket(t, `ws://127.0.0.1:${await freePort()}`), { code: 'ECONNREFUSED' });
});
