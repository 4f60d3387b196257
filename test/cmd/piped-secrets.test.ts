/** Secrets that come by a pipe: one line is enough, whether the pipe ends or not. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { test } from 'node:test';
import { z } from 'zod';
import { troupeCommand } from '../support/cluster/platform.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { type Cleanup, tempDir } from '../support/temp.ts';

failOnLeaks();

/** Stands for a platform that takes every login. */
async function platform(t: Cleanup) {
  const seen: { readonly path: string | undefined; readonly token: string | undefined; readonly body: string }[] = [];
  const server = createServer((request, response) => {
    let body = '';
    request.on('data', (chunk: Buffer) => (body += chunk));
    request.on('end', () => {
      seen.push({ path: request.url, token: request.headers.authorization, body });
      response.setHeader('content-type', 'application/json');
      response.end(JSON.stringify({ username: 'ann', display_name: '', user_id: 'u', is_admin: false, token: 'made' }));
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const address = server.address();
  return { seen, url: `http://127.0.0.1:${typeof address === 'object' ? address?.port : 0}` };
}

/** `troupe login`, which is written this and then nothing, by a pipe that stays open. */
async function logIn(t: Cleanup, args: readonly string[], ...written: readonly string[]) {
  const [program = '', ...command] = troupeCommand(['login', ...args]);
  const child = spawn(program, command, {
    env: {
      ...process.env,
      XDG_CONFIG_HOME: await tempDir(t),
      HOME: await tempDir(t),
      TROUPE_URL: '',
      TROUPE_TOKEN: '',
    },
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  const ended = once(child, 'close');
  t.after(async () => {
    child.kill('SIGKILL');
    child.stdin.destroy();
    await ended;
  });
  child.stdin.on('error', () => {});
  let said = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (said += chunk));
  for (const text of written) child.stdin.write(text);
  const [code] = await ended;
  return { code: z.number().nullable().parse(code), said };
}

test('a password is the first line of a pipe that stays open', async (t) => {
  const { seen, url } = await platform(t);
  const { code, said } = await logIn(t, [url, '--user', 'ann', '--password-stdin'], 'pass', 'wörd\r\n', 'the rest\n');
  assert.equal(code, 0, said);
  const [login] = seen;
  assert.equal(login?.path, '/api/login');
  assert.deepEqual(JSON.parse(login.body), { username: 'ann', password: 'passwörd' });
});

test('a token is the first line of a pipe that stays open', async (t) => {
  const { seen, url } = await platform(t);
  const { code, said } = await logIn(t, [url, '--token'], 'svc_token\n');
  assert.equal(code, 0, said);
  assert.deepEqual(
    seen.map(({ path, token }) => [path, token]),
    [['/api/session', 'Bearer svc_token']],
  );
});
