import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { z } from 'zod';
import { changeLimits } from '../../actors/auth/users/limits.ts';
import {
  createContainer,
  deleteContainer,
  deleteSshKey,
  getContainer,
  listContainers,
  startContainer,
  stopContainer,
  terminal,
} from '../../proto/compute/endpoints.ts';
import { logs } from '../../proto/compute/logs.ts';
import { addIngress, deleteIngress } from '../../proto/compute/settings.ts';
import { newId } from '../../proto/ids.ts';
import { EngineError } from '../../proto/ports/engine.ts';
import type { LimitChanges } from '../../proto/user-limits.ts';
import { readAudit } from '../../storage/audit.ts';
import { insertUser } from '../../storage/auth/users.ts';
import { StorageError } from '../../storage/errors.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { callFrom, refused, someone } from '../support/service/calls.ts';
import { openCompute, PLATFORM_KEY, REGISTRY } from '../support/service/compute.ts';
import { CREATED_FIELDS, VIEW_FIELDS } from '../support/service/container-fields.ts';
import { DOMAIN } from '../support/service/node.ts';
import { publicKey } from '../support/ssh/public-key.ts';
import { until } from '../support/until.ts';

failOnLeaks();

const statusEvent = z.object({
  type: z.literal('container_status'),
  data: z.strictObject({
    container_id: z.string(),
    status: z.string(),
    external_ip: z.string(),
  }),
});

describe('a new container', () => {
  test('goes pending, initializing, running, and each step is pushed in order after the whole list', async (t) => {
    const compute = await openCompute(t);
    const ann = someone();
    const socket = await compute.updates(ann);
    assert.deepEqual(socket.events, [{ type: 'containers', data: [] }]);
    const id = await compute.running(ann);
    await until(() => socket.texts.length === 4, { what: 'four messages' });
    const events = socket.events.slice(1).map((event) => statusEvent.parse(event).data);
    assert.deepEqual(
      events.map(({ status }) => status),
      ['pending', 'initializing', 'running'],
    );
    assert.ok(events.every(({ container_id }) => container_id === id));
    assert.deepEqual(
      events.map(({ external_ip }) => external_ip),
      ['', '', '10.0.0.1'],
    );
    const later = await compute.updates(ann);
    assert.deepEqual(later.events, [{ type: 'containers', data: await compute.list(ann) }]);
  });

  test('is pushed to all connections of its user and to nobody else', async (t) => {
    const compute = await openCompute(t);
    const [ann, bob] = [someone(), someone('bob')];
    const [first, second, other] = [await compute.updates(ann), await compute.updates(ann), await compute.updates(bob)];
    await compute.running(ann);
    await until(() => first.texts.length === 4 && second.texts.length === 4);
    assert.deepEqual(first.texts, second.texts);
    assert.equal(other.texts.length, 1);
  });

  test('has exactly the fields that clients know, without those of use and SSH when just created, started or stopped', async (t) => {
    const compute = await openCompute(t);
    const ann = someone();
    const ssh_key_ids = [await compute.key(ann)];
    const made = await compute.call(createContainer, ann, { body: { name: 'box', ssh_key_ids } });
    assert.deepEqual(Object.keys(made).sort(), CREATED_FIELDS);
    assert.deepEqual(
      { ...made, created_at: '' },
      {
        id: made.id,
        name: 'box',
        status: 'pending',
        hostname: `${made.id}.compute.${DOMAIN}`,
        memory_mb: 512,
        storage_gb: 5,
        instance_type: 'nano',
        created_at: '',
        ssh_enabled: false,
        https_enabled: false,
        pull_policy: 'IfNotPresent',
      },
    );
    const view = await compute.reaches(ann, made.id, 'running');
    assert.deepEqual(Object.keys(view).sort(), VIEW_FIELDS);
    assert.equal(view.ssh_command, `ssh root@${made.id}.compute.${DOMAIN}`);
    compute.engine.setUsage(made.id, { memoryBytes: 100 * 2 ** 20, storageBytes: 1.5 * 2 ** 30 });
    const [listed] = await compute.list(ann);
    assert.deepEqual([listed?.memory_used_mb, listed?.storage_used_gb], [100, 1.5]);
    const stopped = await compute.on(stopContainer, ann, made.id);
    assert.deepEqual(Object.keys(stopped).sort(), CREATED_FIELDS);
    assert.equal((await compute.view(ann, made.id)).memory_used_mb, 0);
    await until(async () => (await compute.engine.inspect(made.id))?.phase === 'exited');
    assert.deepEqual(Object.keys(await compute.on(startContainer, ann, made.id)).sort(), CREATED_FIELDS);
  });

  test('tells how it was made, and how its last run began and ended, also when it is listed', async (t) => {
    const image = `${REGISTRY}/ann/app:1`;
    const compute = await openCompute(t, { engine: { images: [image] } });
    const ann = someone();
    const key = await compute.key(ann);
    const id = await compute.running(ann, { image, mount_paths: ['/data'], ssh_key_ids: [key] });
    const params = { id };
    await compute.call(addIngress, ann, { params, body: { port: 8080, target_port: 80 } });
    await compute.call(addIngress, ann, { params, body: { port: 443 } });
    const view = await compute.view(ann, id);
    const ports = [
      { port: 443, target_port: 443 },
      { port: 8080, target_port: 80 },
    ];
    assert.deepEqual([view.image, view.ssh_key_ids, view.mount_paths, view.ports], [image, [key], ['/data'], ports]);
    const engineStart = (await compute.engine.inspect(id))?.startedAt ?? 0;
    assert.equal(Date.parse(view.started_at ?? ''), engineStart);
    assert.deepEqual(
      [view.ended_at, view.exit_code, view.restarts, view.https_enabled],
      [undefined, undefined, 0, true],
    );
    const removed = await compute.call(deleteIngress, ann, { params: { id, port: '443' } });
    assert.equal(removed.status, 'ok');
    const after = await compute.view(ann, id);
    assert.deepEqual([after.ports, after.https_enabled], [[{ port: 8080, target_port: 80 }], false]);

    compute.engine.crash(id, { exitCode: 3 });
    await until(async () => (await compute.view(ann, id)).restarts === 1);
    const again = await compute.reaches(ann, id, 'running');
    assert.equal(again.exit_code, 3);
    assert.ok(Date.parse(again.ended_at ?? '') >= engineStart);
    assert.ok(Date.parse(again.started_at ?? '') >= Date.parse(again.ended_at ?? ''));
    assert.deepEqual(await compute.list(ann), [await compute.view(ann, id)]);

    await compute.on(stopContainer, ann, id);
    await until(async () => (await compute.view(ann, id)).exit_code === 0);
    const stopped = await compute.view(ann, id);
    assert.ok(Date.parse(stopped.ended_at ?? '') >= Date.parse(again.started_at ?? ''));
    assert.equal(stopped.started_at, again.started_at);
    assert.equal((await compute.list(ann))[0]?.restarts, 1);
    await compute.on(startContainer, ann, id);
    assert.equal((await compute.reaches(ann, id, 'running')).restarts, 0);
  });

  test('forgets a key that its user deletes', async (t) => {
    const compute = await openCompute(t);
    const ann = someone();
    const keys = [await compute.key(ann), await compute.key(ann)];
    const id = await compute.running(ann, { ssh_key_ids: keys });
    assert.deepEqual((await compute.view(ann, id)).ssh_key_ids, keys);
    await compute.call(deleteSshKey, ann, { params: { id: String(keys[0]) } });
    await until(async () => String((await compute.view(ann, id)).ssh_key_ids) === String(keys[1]));
  });

  test('is made by the engine as it was asked for, with the chosen keys and the platform key', async (t) => {
    const image = `${REGISTRY}/ann/app:1`;
    const compute = await openCompute(t, { engine: { images: [image] } });
    const ann = someone();
    const [first, second] = [publicKey('first'), publicKey('second')];
    await compute.key(ann, second);
    const ssh_key_ids = [await compute.key(ann, first)];
    const id = await compute.running(ann, {
      instance_type: 'medium',
      memory_mb: 256,
      storage_gb: 7,
      mount_paths: ['/data', '/srv/www'],
      pull_policy: 'Always',
      image,
      ssh_enabled: true,
      ssh_key_ids: [...ssh_key_ids, ...ssh_key_ids],
    });
    assert.deepEqual(compute.engine.specOf(id), {
      id,
      userId: ann.userId,
      hostname: `${id}.compute.${DOMAIN}`,
      image,
      cpus: 4,
      architecture: 'amd64',
      memoryMb: 256,
      storageGb: 7,
      mountPaths: ['/data', '/srv/www'],
      dataPaths: [],
      authorizedKeys: [PLATFORM_KEY, first],
      followImage: true,
    });
    assert.deepEqual(compute.engine.keysOf(id), [PLATFORM_KEY, first]);
  });

  test('needs keys that are the caller’s own', async (t) => {
    const compute = await openCompute(t);
    const [ann, bob] = [someone(), someone('bob')];
    const ids = [await compute.key(ann), await compute.key(bob)];
    for (const ssh_key_ids of [ids, [4711], [2_147_483_647]]) {
      const refusal = await refused('invalid_request', compute.create(ann, { ssh_key_ids }));
      assert.equal(refusal.fields?.[0]?.path, 'ssh_key_ids');
    }
    assert.deepEqual(await compute.list(ann), []);
  });

  test('may only be made of an image of one’s own', async (t) => {
    const compute = await openCompute(t);
    const ann = someone();
    const refusal = await refused('invalid_request', compute.create(ann, { image: `${REGISTRY}/bob/app:1` }));
    assert.equal(refusal.fields?.[0]?.path, 'image');
  });
});

test('what one user may have is what the operator set last, and a limit that is lowered takes nothing away', async (t) => {
  const compute = await openCompute(t);
  const [ann, bob] = [someone(), someone('bob')];
  assert.ok(await insertUser(compute.db, { id: ann.userId, username: ann.username, passwordHash: '' }));
  const limit = (limits: LimitChanges) => changeLimits(compute.db, ann.username, limits);
  const ids = async (count: number) => {
    for (let n = 0; n < count; n++) await compute.create(ann, { ssh_key_ids: keys });
  };
  const full = async (message: RegExp) =>
    assert.match((await refused('limit_reached', compute.create(ann, { ssh_key_ids: keys }))).message, message);
  const keys = [await compute.key(ann)];
  await limit({ containers: 5, ssh_keys: 12, terminals: 1 });
  await ids(5);
  await full(/^Your limit is 5 containers: delete one/);
  for (let n = 1; n < 12; n++) await compute.key(ann);
  assert.match((await refused('limit_reached', compute.key(ann))).message, /limit is 12 SSH keys.* ann --ssh-keys N`/);

  // Slots above the limit stay taken, and those below it that become free are not given out.
  await limit({ containers: 2 });
  const [first, second, third] = (await compute.list(ann)).map(({ id }) => id);
  for (const id of [first, second, third]) await compute.on(deleteContainer, ann, id ?? '');
  await full(/^Your limit is 2 containers/);
  assert.equal((await compute.list(ann)).length, 2);
  await limit({ containers: 0 });
  await full(/^Your limit is 0 containers: the operator raises it/);
  await limit({ containers: null });
  await ids(1);
  await full(/^Your limit is 3 containers/);
  const entries = await readAudit(compute.db, { action: 'user.limits', limit: 10 });
  assert.deepEqual(entries[1]?.detail, { username: 'ann', containers: { before: 5, after: 2 } });

  const [id = ''] = (await compute.list(ann)).map((view) => view.id);
  await compute.reaches(ann, id, 'running');
  const open = await compute.terminal(ann, id);
  assert.equal((await (await compute.terminal(ann, id)).end()).code, 1008);
  assert.equal(open.closed, undefined);
  await compute.running(bob);
});

describe('the limit of three', () => {
  test('holds when twenty are asked for at once', async (t) => {
    const compute = await openCompute(t);
    const ann = someone();
    const ssh_key_ids = [await compute.key(ann)];
    const results = await Promise.allSettled(
      Array.from({ length: 20 }, (_, i) => compute.create(ann, { name: `box ${i}`, ssh_key_ids })),
    );
    const lost = results.filter((result) => result.status === 'rejected');
    assert.equal(lost.length, 17);
    for (const { reason } of lost) assert.equal(z.object({ code: z.string() }).parse(reason).code, 'limit_reached');
    assert.equal((await compute.list(ann)).length, 3);
    assert.equal(await compute.db.run('select from containers'), 3);
  });

  test('counts each user alone, and a deleted container no more, even while the engine still has it', async (t) => {
    const compute = await openCompute(t);
    const [ann, bob] = [someone(), someone('bob')];
    const ssh_key_ids = [await compute.key(ann)];
    const ids: string[] = [];
    for (let i = 0; i < 3; i++) ids.push(await compute.running(ann, { ssh_key_ids }));
    const refusal = await refused('limit_reached', compute.create(ann, { ssh_key_ids }));
    const raised = 'delete one first, or the operator raises it with `troupe users limits ann --containers N`.';
    assert.equal(refusal.message, `Your limit is 3 containers: ${raised}`);
    await compute.create(bob);
    const release = compute.engine.hold('remove');
    t.after(release);
    await compute.on(deleteContainer, ann, ids[1] ?? '');
    const id = await compute.create(ann, { ssh_key_ids });
    assert.deepEqual(
      (await compute.list(ann)).map((view) => view.id),
      [ids[0], ids[2], id],
    );
    release();
    await until(async () => (await compute.db.run('select from containers where user_id = $1', [ann.userId])) === 3);
  });
});

describe('start, stop and delete', () => {
  test('stop and start keep the container and what was chosen for it', async (t) => {
    const compute = await openCompute(t);
    const ann = someone();
    const id = await compute.running(ann);
    assert.equal((await compute.on(stopContainer, ann, id)).status, 'stopped');
    await until(async () => (await compute.engine.inspect(id))?.phase === 'exited');
    assert.equal((await compute.on(startContainer, ann, id)).status, 'pending');
    await compute.reaches(ann, id, 'running');
    assert.equal(compute.engine.calls.filter((name) => name === `remove ${id}`).length, 0);
  });

  test('are refused with 409 in the states that do not allow them', async (t) => {
    const compute = await openCompute(t);
    const ann = someone();
    const release = compute.engine.hold('ensureImage');
    const id = await compute.create(ann);
    const refusal = await refused('conflict', compute.on(startContainer, ann, id));
    assert.match(refusal.message, /pending/);
    const releaseStart = compute.engine.hold('start');
    release();
    await compute.reaches(ann, id, 'initializing');
    await refused('conflict', compute.on(startContainer, ann, id));
    releaseStart();
    await compute.reaches(ann, id, 'running');
    await refused('conflict', compute.on(startContainer, ann, id));
    await compute.on(stopContainer, ann, id);
    await refused('conflict', compute.on(stopContainer, ann, id));
  });

  test('stop is refused for a failed one, which can be started again', async (t) => {
    const image = `${REGISTRY}/ann/app:1`;
    const compute = await openCompute(t, { engine: { images: [image] } });
    const ann = someone();
    compute.engine.fail('ensureImage', new EngineError('image_not_found', 'There is no such image.'));
    const id = await compute.create(ann, { image });
    await compute.reaches(ann, id, 'failed');
    assert.equal(await compute.reason(id), 'There is no such image.');
    await refused('conflict', compute.on(stopContainer, ann, id));
    const started = await compute.on(startContainer, ann, id);
    assert.equal(started.status, 'pending');
    assert.equal(await compute.reason(id), null);
    await compute.reaches(ann, id, 'running');
    assert.equal(await compute.reason(id), null);
  });

  test('of two starts at once one is refused', async (t) => {
    const compute = await openCompute(t);
    const ann = someone();
    const id = await compute.running(ann);
    await compute.on(stopContainer, ann, id);
    const results = await Promise.allSettled([
      compute.on(startContainer, ann, id),
      compute.on(startContainer, ann, id),
    ]);
    assert.deepEqual(results.map(({ status }) => status).sort(), ['fulfilled', 'rejected']);
    await compute.reaches(ann, id, 'running');
  });

  test('stop during creation ends in stopped, with nothing running', async (t) => {
    const compute = await openCompute(t);
    const ann = someone();
    const release = compute.engine.hold('create');
    const id = await compute.create(ann);
    await until(() => compute.engine.calls.includes(`create ${id}`));
    assert.equal((await compute.on(stopContainer, ann, id)).status, 'stopped');
    release();
    await until(() => compute.engine.calls.findLast((call) => call !== 'list') === `inspect ${id}`);
    assert.equal((await compute.view(ann, id)).status, 'stopped');
    assert.equal(compute.engine.calls.includes(`start ${id}`), false);
    await compute.on(startContainer, ann, id);
    await compute.reaches(ann, id, 'running');
  });

  test('delete during the pull of the image leaves nothing', async (t) => {
    const compute = await openCompute(t);
    const ann = someone();
    const release = compute.engine.hold('ensureImage');
    const id = await compute.create(ann);
    await until(() => compute.engine.calls.some((name) => name.startsWith('ensureImage')));
    assert.deepEqual(await compute.on(deleteContainer, ann, id), { status: 'ok' });
    assert.deepEqual(await compute.list(ann), []);
    release();
    await until(async () => (await compute.db.run('select from containers')) === 0);
    assert.equal(compute.engine.calls.includes(`create ${id}`), false);
    await until(() => compute.alive('compute/container') === 0, { what: 'its actor is asleep' });
  });

  test('delete works in every state and is not found the second time', async (t) => {
    const compute = await openCompute(t);
    const ann = someone();
    const ssh_key_ids = [await compute.key(ann)];
    const running = await compute.running(ann, { ssh_key_ids });
    const stopped = await compute.running(ann, { ssh_key_ids });
    await compute.on(stopContainer, ann, stopped);
    compute.engine.fail('ensureImage', new EngineError('refused', 'No.'));
    const failed = await compute.create(ann, { ssh_key_ids });
    await compute.reaches(ann, failed, 'failed');
    for (const id of [running, stopped, failed]) {
      await compute.on(deleteContainer, ann, id);
      await refused('not_found', compute.on(deleteContainer, ann, id));
    }
    await until(async () => (await compute.db.run('select from containers')) === 0);
    assert.deepEqual(await compute.engine.list(), []);
  });

  test('a deletion that the engine refuses is tried again', async (t) => {
    const compute = await openCompute(t);
    const ann = someone();
    const id = await compute.running(ann);
    compute.engine.fail('remove', new EngineError('unavailable', 'down'), 1);
    await compute.on(deleteContainer, ann, id);
    await until(async () => (await compute.db.run('select from containers')) === 0);
  });
});

describe('other people’s containers', () => {
  test('are answered exactly like unknown ones by every endpoint that takes an id', async (t) => {
    const compute = await openCompute(t);
    const [ann, bob] = [someone(), someone('bob')];
    const id = await compute.running(ann);
    for (const endpoint of [getContainer, startContainer, stopContainer, deleteContainer]) {
      const others = await refused('not_found', compute.on(endpoint, bob, id));
      const unknown = await refused('not_found', compute.on(endpoint, bob, newId()));
      assert.equal(others.message, unknown.message, endpoint.name);
    }
    for (const endpoint of [terminal, logs]) {
      await refused('not_found', compute.connect(endpoint, bob, { params: { id } }));
      await refused('not_found', compute.connect(endpoint, bob, { params: { id: newId() } }));
    }
    assert.deepEqual(await compute.list(bob), []);
    assert.equal((await compute.view(ann, id)).status, 'running');
  });

  test('an id that no id can look like is refused before an actor is asked', () => {
    for (const id of [
      '',
      'x',
      '../../etc',
      "' or 1=1",
      'A'.repeat(12),
      '1bcdefghijkl',
      'ab.defghijkl',
      'é'.repeat(12),
    ]) {
      assert.throws(() => callFrom(getContainer, someone(), { params: { id } }), { code: 'not_found' });
    }
  });
});

describe('what a container may be', () => {
  const refusedBody = (body: Record<string, unknown>, path?: string) => {
    try {
      callFrom(createContainer, someone(), { body: { name: 'box', ssh_key_ids: [1], ...body } });
    } catch (error) {
      const refusal = z.object({ code: z.literal('invalid_request'), fields: z.array(z.object({ path: z.string() })) });
      assert.equal(refusal.parse(error).fields[0]?.path, path ?? Object.keys(body)[0], JSON.stringify(body));
      return;
    }
    assert.fail(`taken: ${JSON.stringify(body)}`);
  };
  const taken = (body: Record<string, unknown>) =>
    callFrom(createContainer, someone(), { body: { name: 'box', ssh_key_ids: [1], ...body } });

  test('mount paths that reach the system or are none are refused', () => {
    const bad = ['', 'root', './root', '../root', '/', '/root/', '//root', '/a/../etc', '/a/./b', '/proc', '/proc/1'];
    const worse = ['/sys', '/dev/shm', '/run', '/run/docker.sock', '/var/run/docker.sock', '/etc', '/etc/ssh', '/usr'];
    const injected = ['/root:ro', '/root:/etc', '/a b', '/a\0', '/a\n', '/ä', `/${'a'.repeat(255)}`, '/a,b', '/a"'];
    for (const path of ['/usr/bin', '/usr/lib/x', '/etc/troupe/keys', '/lib64/x', '/var'])
      refusedBody({ mount_paths: [path] }, 'mount_paths.0');
    for (const path of [...bad, ...worse, ...injected]) refusedBody({ mount_paths: [path] }, 'mount_paths.0');
    for (const paths of [[], ['/a', '/a'], ['/a', '/a/b'], Array.from({ length: 17 }, (_, i) => `/p${i}`)]) {
      refusedBody({ mount_paths: paths }, 'mount_paths');
    }
    taken({ stateless: true });
    taken({ mount_paths: ['/root', '/data', '/srv/www', '/home/ann', '/var/lib/app_1', '/a-b', '/ab'] });
  });

  test('names are 1 to 63 plain characters', () => {
    for (const name of ['', ' box', '-box', '.box', 'a'.repeat(64), 'a/b', 'a\n', 'bäx', 'a\0', '<b>', 7, null]) {
      refusedBody({ name });
    }
    for (const name of ['a', '1', 'My box 1.0_x-y', 'a'.repeat(63)]) taken({ name });
  });

  test('sizes are whole numbers within bounds', () => {
    for (const memory_mb of [0, -1, 127, 65_537, 512.5, 1e308, '1Ei', '512', null, Number.NaN])
      refusedBody({ memory_mb });
    for (const storage_gb of [0, -1, 1025, 1.5, 1e308, '5', null]) refusedBody({ storage_gb });
    for (const instance_type of ['', 'huge', 'NANO', 1, null, '__proto__']) refusedBody({ instance_type });
    for (const pull_policy of ['', 'always', 'Never', null]) refusedBody({ pull_policy });
    taken({ memory_mb: 128, storage_gb: 1 });
    taken({ memory_mb: 65_536, storage_gb: 1024, instance_type: 'medium', pull_policy: 'Always' });
  });

  test('keys are ids, at least one', () => {
    for (const ssh_key_ids of [[], 1, '1', null, Array.from({ length: 101 }, (_, i) => i + 1)]) {
      refusedBody({ ssh_key_ids });
    }
    for (const id of [0, -1, 1.5, '1', null, 2 ** 31]) refusedBody({ ssh_key_ids: [id] }, 'ssh_key_ids.0');
  });

  test('a field nobody knows is refused, not passed by', () => {
    for (const field of [
      'privileged',
      'host_network',
      'pid',
      'capabilities',
      'runtime',
      'environment',
      'user_id',
      'status',
    ]) {
      refusedBody({ [field]: true }, '');
    }
    refusedBody(z.record(z.string(), z.unknown()).parse(JSON.parse('{"constructor":{"x":1}}')), '');
  });
});

describe('while a part is down', () => {
  test('the database: requests are refused as unavailable, health names it, and all is well when it is back', async (t) => {
    const compute = await openCompute(t);
    const ann = someone();
    const id = await compute.running(ann);
    const gone = new StorageError('unavailable', 'The database cannot be reached.');
    await compute.stop();
    await compute.start();
    compute.db.failure = gone;
    await refused('unavailable', compute.call(listContainers, ann));
    await refused('unavailable', compute.view(ann, id));
    await refused('unavailable', compute.create(ann, { ssh_key_ids: [1] }));
    assert.match((await compute.service.health()).problems.join(), /database/);
    compute.db.failure = undefined;
    assert.equal((await compute.view(ann, id)).status, 'running');
    assert.deepEqual(await compute.service.health(), { ok: true, problems: [] });
  });

  test('the engine: health names it, a new container waits, and runs once it is back', async (t) => {
    const compute = await openCompute(t);
    const ann = someone();
    const down = new EngineError('unavailable', 'the socket is gone');
    for (const name of ['list', 'inspect', 'ensureImage'] as const) compute.engine.fail(name, down, 1000);
    compute.engine.reconnect();
    await until(async () => !(await compute.service.health()).ok);
    assert.deepEqual((await compute.service.health()).problems, ['container engine: the socket is gone']);
    const id = await compute.create(ann);
    await until(() => compute.engine.calls.filter((name) => name === `inspect ${id}`).length >= 2);
    assert.equal((await compute.view(ann, id)).status, 'pending');
    for (const name of ['list', 'inspect', 'ensureImage'] as const) compute.engine.fail(name, down, 0);
    compute.engine.reconnect();
    await compute.reaches(ann, id, 'running');
    await until(async () => (await compute.service.health()).ok);
    const said = compute.log.lines.filter(({ level }) => level === 'error').map(({ message }) => message);
    assert.deepEqual(said, ['the container engine does not answer']);
  });
});
