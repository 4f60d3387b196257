/** Secrets that come by a pipe: one line is enough, whether the pipe ends or not. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { test } from 'node:test';
import { verify } from '@node-rs/argon2';
import { z } from 'zod';
import { troupeCommand } from '../support/cluster/platform.ts';
import { testDatabase } from '../support/database/database.ts';
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

/** `troupe`, which is written this and then nothing, by a pipe that stays open. */
async function run(t: Cleanup, args: readonly string[], written: readonly string[], env: Record<string, string> = {}) {
  const [program = '', ...command] = troupeCommand(args);
  const child = spawn(program, command, {
    env: {
      ...process.env,
      XDG_CONFIG_HOME: await tempDir(t),
      HOME: await tempDir(t),
      TROUPE_URL: '',
      TROUPE_TOKEN: '',
      ...env,
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
  const { code, said } = await run(
    t,
    ['login', url, '--user', 'ann', '--password-stdin'],
    ['pass', 'wörd\r\n', 'the rest\n'],
  );
  assert.equal(code, 0, said);
  const [login] = seen;
  assert.equal(login?.path, '/api/login');
  assert.deepEqual(JSON.parse(login.body), { username: 'ann', password: 'passwörd' });
});

test('a token is the first line of a pipe that stays open', async (t) => {
  const { seen, url } = await platform(t);
  const { code, said } = await run(t, ['login', url, '--token'], ['svc_token\n']);
  assert.equal(code, 0, said);
  assert.deepEqual(
    seen.map(({ path, token }) => [path, token]),
    [['/api/session', 'Bearer svc_token']],
  );
});

test('a new password of a user is the first line of a pipe that stays open', async (t) => {
  const database = await testDatabase();
  t.after(() => database.close());
  const env = { DATABASE_URL: database.url };
  const users = async (words: readonly string[], ...written: readonly string[]) => {
    const { code, said } = await run(t, ['users', ...words, '--data', await tempDir(t)], written, env);
    assert.equal(code, 0, said);
    const text = "select password_hash as hash from users where username = 'bea'";
    const row = await database.db.one(z.object({ hash: z.string() }), text);
    return { said, hash: row?.hash ?? '' };
  };
  const added = await users(['add', 'bea'], 'a long pass', 'word\n', 'the rest\n');
  assert.equal(added.said, 'Added bea.\n');
  assert.ok(await verify(added.hash, 'a long password'));
  const changed = await users(['passwd', 'bea'], 'another password\n');
  assert.match(changed.said, /^The password of bea is changed\./);
  assert.ok(await verify(changed.hash, 'another password'));
});
