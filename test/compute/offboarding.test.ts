/** What becomes of the containers of users who are disabled or removed. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { beginRemoval, disableUser, enableUser, forgetUser } from '../../actors/auth/users/user-state.ts';
import { createContainer, listContainers, startContainer, stopContainer } from '../../proto/compute/endpoints.ts';
import type { Caller } from '../../proto/endpoint.ts';
import { readAudit } from '../../storage/audit.ts';
import { insertUser } from '../../storage/auth/users.ts';
import { isUserActive, offboardedUsers } from '../../storage/offboarding.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { refused, someone } from '../support/service/calls.ts';
import { type ComputeUnderTest, openCompute } from '../support/service/compute.ts';
import type { Cleanup } from '../support/temp.ts';
import { until } from '../support/until.ts';

failOnLeaks();

async function setting(t: Cleanup) {
  const compute = await openCompute(t);
  const user = async (username: string): Promise<Caller> => {
    const caller = someone(username);
    assert.ok(await insertUser(compute.db, { id: caller.userId, username, passwordHash: '' }));
    return caller;
  };
  return { compute, ann: await user('ann'), bob: await user('bob') };
}

const inEngine = async (compute: ComputeUnderTest) => (await compute.engine.list()).map(({ id }) => id);

test('a user who is disabled keeps running containers, and begins nothing new', async (t) => {
  const { compute, ann, bob } = await setting(t);
  const id = await compute.running(ann);
  const other = await compute.running(ann);
  await compute.on(startContainer, bob, await stoppedOf(compute, bob));
  await stopAndWait(compute, ann, other);
  const done = await disableUser(compute.db, 'ann', { stop: false });
  assert.deepEqual(done, { id: ann.userId, changed: true, containers: 2 });
  // Calls that were let in before they were disabled.
  await refused('unauthorized', compute.call(createContainer, ann, { body: { name: 'late', ssh_key_ids: [1] } }));
  await refused('unauthorized', compute.on(startContainer, ann, other));
  assert.equal((await compute.view(ann, id)).status, 'running');
  assert.ok((await inEngine(compute)).includes(id));
  await enableUser(compute.db, 'ann');
  await compute.on(startContainer, ann, other);
  await compute.reaches(ann, other, 'running');
});

test('--stop stops what runs, of this user alone, as the operator, and is done once', async (t) => {
  const { compute, ann, bob } = await setting(t);
  const [first, second, kept] = [await compute.running(ann), await compute.running(ann), await compute.running(bob)];
  await stopAndWait(compute, ann, second);
  await disableUser(compute.db, 'ann', { stop: true });
  await compute.reaches(ann, first, 'stopped');
  await until(async () => (await offboardedUsers(compute.db)).length === 0, { what: 'nothing is left to do' });
  assert.equal((await compute.view(bob, kept)).status, 'running');
  const stops = await readAudit(compute.db, { action: 'container.stop', limit: 10 });
  assert.deepEqual(
    stops.map(({ username, target }) => [username, target]),
    [
      ['ann', second],
      ['operator', first],
    ],
  );
  assert.ok((await compute.notices(ann.userId)).some((notice) => notice.startsWith('Container stopped')));
});

test('a removal deletes the containers, and goes on after an interruption', async (t) => {
  const { compute, ann, bob } = await setting(t);
  const ids = [await compute.running(ann), await compute.running(ann)];
  const kept = await compute.running(bob);
  await compute.stop();
  const { id } = await beginRemoval(compute.db, 'ann', 'admin');
  assert.deepEqual(await forgetUser(compute.db, id), { containers: 2, mappings: 0 });
  assert.equal((await inEngine(compute)).length, 3);
  await compute.start();
  await until(async () => (await forgetUser(compute.db, id)) === undefined, {
    what: 'nothing is left',
    timeoutMs: 30_000,
  });
  assert.deepEqual(await inEngine(compute), [kept]);
  assert.deepEqual((await compute.call(listContainers, ann)).containers, []);
  for (const table of ['containers', 'ssh_keys', 'users'])
    assert.equal(
      await compute.db.run(`select from ${table} where ${table === 'users' ? 'id' : 'user_id'} = $1`, [id]),
      0,
    );
  assert.deepEqual(
    new Set((await readAudit(compute.db, { action: 'container.delete', limit: 10 })).map(({ target }) => target)),
    new Set(ids),
  );
  // A call that was let in long ago.
  await refused('unauthorized', compute.call(createContainer, ann, { body: { name: 'late', ssh_key_ids: [1] } }));
});

test('a container that is begun while its user is being forgotten is seen, or refused', async (t) => {
  const { compute, ann } = await setting(t);
  const { db } = compute;
  let isForgetting = Promise.resolve<unknown>(undefined);
  await db.tx(async (tx) => {
    assert.equal(await isUserActive(tx, ann.userId), true);
    // Waits for us: it cannot see what we have not committed.
    isForgetting = beginRemoval(db, 'ann', 'admin').then(({ id }) => forgetUser(db, id));
    await tx.run(
      `insert into containers (id, user_id, slot, name, instance_type, memory_mb, storage_gb, pull_policy, mount_paths, ssh_enabled, desired, status)
       values ('aaaaaaaaaaa1', $1, 1, 'x', 'nano', 512, 5, 'IfNotPresent', '{/root}', true, 'stopped', 'stopped')`,
      [ann.userId],
    );
  });
  assert.deepEqual(await isForgetting, { containers: 1, mappings: 0 });
});

async function stopAndWait(compute: ComputeUnderTest, caller: Caller, id: string): Promise<void> {
  await compute.on(stopContainer, caller, id);
  await compute.reaches(caller, id, 'stopped');
}

async function stoppedOf(compute: ComputeUnderTest, caller: Caller): Promise<string> {
  const id = await compute.running(caller);
  await stopAndWait(compute, caller, id);
  return id;
}
