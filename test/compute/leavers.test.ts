/** What becomes of the containers of users who are disabled or removed. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { beginRemoval, disableUser, enableUser, forgetUser } from '../../actors/auth/users/user-state.ts';
import { createContainer, listContainers, startContainer, stopContainer } from '../../proto/compute/endpoints.ts';
import type { Caller } from '../../proto/endpoint.ts';
import { readAudit } from '../../storage/audit.ts';
import { insertUser } from '../../storage/auth/users.ts';
import { leavers, mayBegin } from '../../storage/offboarding.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { openWorld, refused, someone, type World } from '../support/service/compute.ts';
import type { Cleanup } from '../support/temp.ts';
import { until } from '../support/until.ts';

failOnLeaks();

async function setting(t: Cleanup) {
  const world = await openWorld(t);
  const user = async (username: string): Promise<Caller> => {
    const caller = someone(username);
    assert.ok(await insertUser(world.db, { id: caller.userId, username, passwordHash: '' }));
    return caller;
  };
  return { world, ann: await user('ann'), bob: await user('bob') };
}

const inEngine = async (world: World) => (await world.engine.list()).map(({ id }) => id);

test('a user who is disabled keeps running containers, and begins nothing new', async (t) => {
  const { world, ann, bob } = await setting(t);
  const id = await world.running(ann);
  const other = await world.running(ann);
  await world.on(startContainer, bob, await stoppedOf(world, bob));
  await stopAndWait(world, ann, other);
  const done = await disableUser(world.db, 'ann', { stop: false });
  assert.deepEqual(done, { id: ann.userId, changed: true, containers: 2 });
  // Calls that were let in before they were disabled.
  await refused('unauthorized', world.call(createContainer, ann, { body: { name: 'late', ssh_key_ids: [1] } }));
  await refused('unauthorized', world.on(startContainer, ann, other));
  assert.equal((await world.view(ann, id)).status, 'running');
  assert.ok((await inEngine(world)).includes(id));
  await enableUser(world.db, 'ann');
  await world.on(startContainer, ann, other);
  await world.reaches(ann, other, 'running');
});

test('--stop stops what runs, of this user alone, as the operator, and is done once', async (t) => {
  const { world, ann, bob } = await setting(t);
  const [first, second, kept] = [await world.running(ann), await world.running(ann), await world.running(bob)];
  await stopAndWait(world, ann, second);
  await disableUser(world.db, 'ann', { stop: true });
  await world.reaches(ann, first, 'stopped');
  await until(async () => (await leavers(world.db)).length === 0, { what: 'nothing is left to do' });
  assert.equal((await world.view(bob, kept)).status, 'running');
  const stops = await readAudit(world.db, { action: 'container.stop', limit: 10 });
  assert.deepEqual(
    stops.map(({ username, target }) => [username, target]),
    [
      ['ann', second],
      ['operator', first],
    ],
  );
  assert.ok((await world.notices(ann.userId)).some((notice) => notice.startsWith('Container stopped')));
});

test('a removal deletes the containers, and goes on after an interruption', async (t) => {
  const { world, ann, bob } = await setting(t);
  const ids = [await world.running(ann), await world.running(ann)];
  const kept = await world.running(bob);
  await world.stop();
  const { id } = await beginRemoval(world.db, 'ann', 'admin');
  assert.deepEqual(await forgetUser(world.db, id), { containers: 2, mappings: 0 });
  assert.equal((await inEngine(world)).length, 3);
  await world.start();
  await until(async () => (await forgetUser(world.db, id)) === undefined, {
    what: 'nothing is left',
    timeoutMs: 30_000,
  });
  assert.deepEqual(await inEngine(world), [kept]);
  assert.deepEqual((await world.call(listContainers, ann)).containers, []);
  for (const table of ['containers', 'ssh_keys', 'users'])
    assert.equal(
      await world.db.run(`select from ${table} where ${table === 'users' ? 'id' : 'user_id'} = $1`, [id]),
      0,
    );
  assert.deepEqual(
    new Set((await readAudit(world.db, { action: 'container.delete', limit: 10 })).map(({ target }) => target)),
    new Set(ids),
  );
  // A call that was let in long ago.
  await refused('unauthorized', world.call(createContainer, ann, { body: { name: 'late', ssh_key_ids: [1] } }));
});

test('a container that is begun while its user is being forgotten is seen, or refused', async (t) => {
  const { world, ann } = await setting(t);
  const { db } = world;
  let isForgetting = Promise.resolve<unknown>(undefined);
  await db.tx(async (tx) => {
    assert.equal(await mayBegin(tx, ann.userId), true);
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

async function stopAndWait(world: World, caller: Caller, id: string): Promise<void> {
  await world.on(stopContainer, caller, id);
  await world.reaches(caller, id, 'stopped');
}

async function stoppedOf(world: World, caller: Caller): Promise<string> {
  const id = await world.running(caller);
  await stopAndWait(world, caller, id);
  return id;
}
