/** `troupe database`: a platform is dumped while it runs, restored into another server, and started on it. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { copyFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { psql } from '../../cmd/cli/database.ts';
import { logIn, request, startPlatform, troupe } from '../support/cluster/platform.ts';
import { testDatabase } from '../support/database/database.ts';
import { skipWithoutDocker, tinyImage } from '../support/engine/docker-client.ts';
import { skipWithout } from '../support/require.ts';
import { tempDir } from '../support/temp.ts';

const run = promisify(execFile);

test('a running platform is dumped, restored into another database, and another platform starts on it', {
  skip: skipWithoutDocker() || skipWithout('psql'),
  timeout: 900_000,
}, async (t) => {
  const [data, other] = [await tempDir(t), await tempDir(t)];
  const env = { DATABASE_URL: '', DEFAULT_IMAGE: await tinyImage(), ADMIN_PASSWORD: 'the admin of this test' };
  const cli = (...args: string[]) => troupe([...args, '--data', data], { env });
  const shell = (sql: string) => troupe(['database', 'shell', '--data', data, '--', '-Atc', sql], { env });
  const first = await startPlatform({ data, env });
  t.after(() => first.stop());
  const token = await logIn(first.ready.urls.auth, 'admin', env.ADMIN_PASSWORD);
  const named = async (name: string) => {
    const path = `${first.ready.urls.auth}/api/service-accounts`;
    return (await request('POST', path, { token, body: { name, scopes: {} } })).status;
  };
  await named('before');

  const url = (await cli('database', 'url')).stdout.trim();
  assert.equal((await run('psql', [url, '-Atc', 'select username from users'])).stdout, 'admin\n');
  assert.equal((await shell('select username from users')).stdout, 'admin\n');
  const file = join(data, 'troupe.dump.gz');
  const dumped = await cli('database', 'dump', file);
  assert.equal(dumped.code, 0, dumped.stderr);
  assert.match(dumped.stderr, /^Wrote .*troupe\.dump\.gz\. Keep jwt-secret and encryption-key of /);
  assert.equal((await stat(file)).mode & 0o777, 0o600);
  // It goes on as before.
  assert.equal((await request('GET', `${first.ready.urls.auth}/api/session`, { token })).json.username, 'admin');
  assert.equal(await first.stop(), 0, first.log());

  const target = await testDatabase();
  t.after(() => target.close());
  const restore = (...args: string[]) =>
    troupe(['database', 'restore', file, '--data', other, ...args], { env: { ...env, DATABASE_URL: target.url } });
  assert.match((await restore()).stderr, /^troupe: The database is not empty: --replace removes/);
  assert.match((await restore('--replace')).stdout, /^Restored \d+ rows\./);
  for (const secret of ['jwt-secret', 'encryption-key']) await copyFile(join(data, secret), join(other, secret));
  const second = await startPlatform({ data: other, env: { ...env, DATABASE_URL: target.url, ADMIN_PASSWORD: '' } });
  t.after(() => second.stop());
  // Sessions go on, since the secret is the same.
  assert.equal((await request('GET', `${second.ready.urls.auth}/api/session`, { token })).json.username, 'admin');
  assert.equal(await second.stop(), 0, second.log());

  // Of a platform that does not run: its server runs for the time of it. A restore makes a database where there is none.
  const stopped = await cli('database', 'dump', join(data, 'again.dump'));
  assert.equal(stopped.code, 0, stopped.stderr);
  const fresh = ['--data', join(await tempDir(t), 'fresh')];
  const restored = await troupe(['database', 'restore', join(data, 'again.dump'), ...fresh], { env });
  assert.match(restored.stdout, /^Restored \d+ rows\./);
  assert.match((await troupe(['users', 'list', ...fresh], { env })).stdout, /admin/);
  assert.equal((await shell('select username from users')).stdout, 'admin\n');
  const nowhere = await cli('database', 'url');
  assert.match(nowhere.stderr, /^troupe: The database runs while Troupe does\. Start it with `.*troupe up --data /);
});

test('where there is no psql, what to install is said', async (t) => {
  const dir = await tempDir(t);
  assert.throws(() => psql([dir]), /There is no psql on this machine: apt-get install postgresql-client$/);
});
