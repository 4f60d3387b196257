import assert from 'node:assert/strict';
import { chmod, mkdir, readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { CliError } from '../../cmd/config/cli-error.ts';
import { readEnvironment } from '../../cmd/config/config.ts';
import { dataDirInUse, openDataDir, openSecrets } from '../../cmd/config/data-dir.ts';
import { defaultDataDir } from '../../cmd/config/program.ts';
import { lockDataDir } from '../../cmd/config/running.ts';
import { tempDir } from '../support/temp.ts';

const mode = async (path: string) => (await stat(path)).mode & 0o777;

test('secrets are made once, readable by their owner alone', async (t) => {
  const dir = openDataDir(join(await tempDir(t), 'new', 'data'));
  const environment = readEnvironment({});
  const first = openSecrets(dir, environment);
  const second = openSecrets(dir, environment);
  assert.equal(second.jwtSecret, first.jwtSecret);
  assert.ok(second.encryptionKey.equals(first.encryptionKey));
  assert.ok(typeof first.jwtSecret === 'string' && Buffer.byteLength(first.jwtSecret) >= 32);
  for (const name of ['jwt-secret', 'encryption-key']) assert.equal(await mode(join(dir, name)), 0o600, name);
});

test('secrets that are given win, and nothing is written', async (t) => {
  const dir = await tempDir(t);
  const given = { JWT_SECRET: 'x'.repeat(32), ENCRYPTION_KEY: '0f'.repeat(32) };
  const secrets = openSecrets(dir, readEnvironment(given));
  assert.equal(secrets.jwtSecret, given.JWT_SECRET);
  await assert.rejects(readFile(join(dir, 'jwt-secret')), { code: 'ENOENT' });
});

test('a damaged secret stops the start and says which file', async (t) => {
  const dir = await tempDir(t);
  await writeFile(join(dir, 'encryption-key'), 'half a key');
  assert.throws(() => openSecrets(dir, readEnvironment({})), /encryption-key does not hold 32 bytes/);
  await writeFile(join(dir, 'jwt-secret'), 'short');
  assert.throws(
    () => openSecrets(dir, readEnvironment({ ENCRYPTION_KEY: '0f'.repeat(32) })),
    /jwt-secret is shorter than 32 bytes/,
  );
  await mkdir(join(dir, 'folder'));
  await mkdir(join(dir, 'folder', 'jwt-secret'));
  assert.throws(() => openSecrets(join(dir, 'folder'), readEnvironment({})), CliError);
});

test('a data folder that cannot be made is refused with what to do', async (t) => {
  const dir = await tempDir(t);
  await writeFile(join(dir, 'file'), '');
  assert.throws(() => openDataDir(join(dir, 'file')), /\(it is not a folder\): choose one of your own with --data DIR/);
  assert.throws(() => openDataDir(join(dir, 'file', 'below')), /it is not a folder/);
});

test('a data folder where the system makes none is refused, not tried for ever', { timeout: 30_000 }, () => {
  assert.throws(() => openDataDir('/proc/self/nowhere/troupe'), /cannot be made or changed \(.+\): choose one/);
});

test('a data folder that was there loses no right, and one that everybody may write to is refused', async (t) => {
  const dir = await tempDir(t);
  const made = openDataDir(join(dir, 'a', 'b'));
  assert.equal((await mode(made)) & 0o711, 0o711);
  for (const [given, after] of [
    [0o700, 0o711],
    [0o755, 0o755],
  ] as const) {
    await chmod(made, given);
    openDataDir(made);
    assert.equal(await mode(made), after);
  }
  await chmod(made, 0o777);
  assert.throws(() => openDataDir(made), /Everybody may write to/);
  assert.equal(await mode(made), 0o777);
});

test('a command that needs a platform makes none where --data leads nowhere', async (t) => {
  const dir = await tempDir(t);
  assert.throws(() => dataDirInUse(join(dir, 'typo')), /There is no platform under .*typo yet/);
  assert.deepEqual(await readdir(dir), []);
  await mkdir(join(dir, 'postgres'));
  assert.equal(dataDirInUse(dir), dir);
});

test('the default folder follows the user', () => {
  const root = process.getuid?.() === 0;
  assert.equal(defaultDataDir({ XDG_DATA_HOME: '/xdg' }), root ? '/var/lib/troupe' : '/xdg/troupe');
});

test('one process holds a folder; a stale lock does not', async (t) => {
  const dir = await tempDir(t);
  const unlock = lockDataDir(dir);
  assert.throws(() => lockDataDir(dir), /Troupe already runs on .* \(process \d+\)/);
  unlock();
  unlock();
  // A process that is gone, and a number that another process has now.
  for (const stale of ['999999999 1\n', `${process.pid} 1\n`, '']) {
    await writeFile(join(dir, 'up.lock'), stale);
    lockDataDir(dir)();
  }
  await chmod(dir, 0o700);
});
