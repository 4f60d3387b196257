/** What the library writes to standard error by itself. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { loadUws } from '../../transports/http/uws-library.ts';
import { websocket } from '../support/clients/websocket.ts';
import { supportFile } from '../support/project.ts';

const COUNT = 200;

// Nothing else writes such lines.
const testOfLibrary = loadUws() === undefined ? () => undefined : test;

testOfLibrary('upgrades that are decided later are no lines on standard error', async (t) => {
  const file = supportFile('http/upgrade-process');
  const child = spawn(process.execPath, [...process.execArgv, file], { stdio: 'pipe' });
  t.after(() => child.kill('SIGKILL'));
  let written = '';
  child.stderr.on('data', (chunk: Buffer) => (written += chunk));
  const [port] = await once(createInterface({ input: child.stdout }), 'line');
  const url = `ws://127.0.0.1:${port}/`;
  const first = await websocket(t, url);
  assert.equal(await first.text(), 'hello');
  const others = await Promise.all(Array.from({ length: COUNT }, () => websocket(t, url)));
  for (const socket of others) assert.equal(await socket.text(), 'hello');
  // Nobody is connected when the next one comes.
  for (const socket of [first, ...others]) socket.close();
  await Promise.all([first, ...others].map((socket) => socket.closed));
  assert.equal(await (await websocket(t, url)).text(), 'hello');
  const ended = once(child, 'exit');
  child.stdin.end();
  assert.deepEqual(await ended, [0, null]);
  const lines = written.split('\n').filter((line) => line.includes('uWS'));
  assert.deepEqual(lines, []);
});
