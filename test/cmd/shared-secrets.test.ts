import assert from 'node:assert/strict';
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { readEnvironment } from '../../cmd/config/config.ts';
import { openSecrets } from '../../cmd/config/data-dir.ts';
import { finishRotation, prepareRotation, rotate } from '../../cmd/config/shared-secrets.ts';
import { tempDir } from '../support/temp.ts';

test('the secret of a data folder is rotated in steps, each of which accepts what the one before signs', async (t) => {
  const dir = await tempDir(t);
  const secrets = () => [openSecrets(dir, readEnvironment({})).jwtSecret].flat();
  assert.throws(() => rotate(dir), /no jwt-secret/);
  const [first = ''] = secrets();
  assert.throws(() => finishRotation(dir), /nothing is being rotated/);
  prepareRotation(dir);
  const [signing, next = '', ...more] = secrets();
  assert.deepEqual([signing, more], [first, []]);
  assert.notEqual(next, first);
  assert.throws(() => prepareRotation(dir), /prepared already/);
  rotate(dir);
  assert.deepEqual(secrets(), [next, first]);
  assert.throws(() => rotate(dir), /under way/);
  finishRotation(dir);
  assert.deepEqual(secrets(), [next]);
  // Without a second process in one step.
  rotate(dir);
  assert.equal(secrets()[1], next);
  for (const name of ['jwt-secret', 'jwt-secret-previous'])
    assert.equal((await stat(join(dir, name))).mode & 0o777, 0o600, name);
});

test('the environment names the secrets beside the one that signs; those of a folder belong to its own', async (t) => {
  const dir = await tempDir(t);
  const [one, two, three] = ['1', '2', '3'].map((digit) => digit.repeat(32));
  const of = (env: Record<string, string | undefined>) =>
    openSecrets(dir, readEnvironment({ ENCRYPTION_KEY: '0f'.repeat(32), ...env })).jwtSecret;
  of({});
  prepareRotation(dir);
  assert.equal(of({ JWT_SECRET: one }), one);
  assert.deepEqual(of({ JWT_SECRET: one, JWT_SECRET_NEXT: two, JWT_SECRET_PREVIOUS: three }), [one, two, three]);
  assert.throws(() => of({ JWT_SECRET_NEXT: 'short' }), /JWT_SECRET_NEXT: must be at least 32 bytes/);
});
