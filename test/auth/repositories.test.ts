/** Who may pull a repository, as an operator sets it. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setVisibility } from '../../actors/auth/registry/registry-rights.ts';
import { addUser } from '../../actors/auth/users/users.ts';
import { readAudit } from '../../storage/audit.ts';
import { publicAmong, publicRepositories } from '../../storage/auth/repositories.ts';
import type { Db } from '../../storage/db.ts';
import { testDatabase } from '../support/database/database.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { refused } from '../support/service/calls.ts';

failOnLeaks();

async function withAnn(t: { after(end: () => Promise<void>): void }): Promise<Db> {
  const { db, close } = await testDatabase();
  t.after(close);
  await addUser(db, 'ann', 'the password of ann');
  return db;
}

test('a repository is private until it is made public, and again when it is made private', async (t) => {
  const db = await withAnn(t);
  const names = ['ann/app', 'ann/app2', 'ann/a/b'];
  assert.deepEqual([...(await publicAmong(db, names))], []);
  assert.equal(await setVisibility(db, 'ann/app', 'public'), true);
  assert.equal(await setVisibility(db, 'ann/a/b', 'public'), true);
  assert.deepEqual([...(await publicAmong(db, names))].sort(), ['ann/a/b', 'ann/app']);
  assert.deepEqual(
    (await publicRepositories(db)).map(({ name }) => name),
    ['ann/a/b', 'ann/app'],
  );
  assert.equal(await setVisibility(db, 'ann/app', 'private'), true);
  assert.deepEqual([...(await publicAmong(db, names))], ['ann/a/b']);
});

test('each change is in the audit trail, under the operator’s name; what changes nothing is not', async (t) => {
  const db = await withAnn(t);
  assert.equal(await setVisibility(db, 'ann/app', 'private'), false);
  await setVisibility(db, 'ann/app', 'public');
  assert.equal(await setVisibility(db, 'ann/app', 'public'), false);
  await setVisibility(db, 'ann/app', 'private');
  const entries = await readAudit(db, { action: 'repository', limit: 10 });
  assert.deepEqual(
    entries.map(({ username, userId, action, target, detail }) => [username, userId, action, target, detail]),
    [
      ['operator', null, 'repository.set_visibility', 'ann/app', { visibility: 'public' }],
      ['operator', null, 'repository.set_visibility', 'ann/app', { visibility: 'private' }],
    ],
  );
});

test('two who make it public at once change it once', async (t) => {
  const db = await withAnn(t);
  const changes = await Promise.all(Array.from({ length: 8 }, () => setVisibility(db, 'ann/app', 'public')));
  assert.equal(changes.filter(Boolean).length, 1);
});

test('a name that is no repository, a library and nobody’s are refused, and nothing is kept', async (t) => {
  const db = await withAnn(t);
  for (const name of [
    ...['app', '', 'ann/', '/app', 'ann', 'ann/App', 'ANN/app', 'ann/app:latest', 'ann/app@sha256:00', 'ann/../bob'],
    ...['registry.test:5000/ann/app', 'ann//app', 'ann/app/', ' ann/app', 'ann/app\0', `ann/${'a'.repeat(252)}`],
  ])
    assert.match((await refused('invalid_request', setVisibility(db, name, 'public'))).message, /<username>\/<name>/);
  for (const visibility of ['public', 'private'] as const)
    await refused('invalid_request', setVisibility(db, 'library/debian', visibility));
  await refused('not_found', setVisibility(db, 'nobody/app', 'public'));
  assert.deepEqual(await publicRepositories(db), []);
});

test('what was public when its owner went can be made private', async (t) => {
  const db = await withAnn(t);
  await setVisibility(db, 'ann/app', 'public');
  await db.run(`delete from users where username = 'ann'`);
  assert.equal(await setVisibility(db, 'ann/app', 'private'), true);
});
