/** What a container must not be made of, and what must not bring one out of step. Mount paths and terminals have tests of their own. */

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { createContainer, deleteContainer, startContainer, stopContainer } from '../../proto/compute/endpoints.ts';
import { addIngress, setMounts, setSsh } from '../../proto/compute/settings.ts';
import { newId } from '../../proto/ids.ts';
import { EngineError } from '../../proto/ports/engine.ts';
import { containerById } from '../../storage/compute/containers.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { callFrom, refused, someone } from '../support/service/calls.ts';
import { type ComputeUnderTest, openCompute, REGISTRY } from '../support/service/compute.ts';
import { turns, until } from '../support/until.ts';

failOnLeaks();

const ann = someone();
const good = { name: 'x', ssh_key_ids: [1] };
const refusesBody = (body: object) =>
  assert.throws(
    () => callFrom(createContainer, ann, { body: { ...good, ...body } }),
    { code: 'invalid_request' },
    JSON.stringify(body).slice(0, 80),
  );
const callsOf = (compute: ComputeUnderTest, name: string) =>
  compute.engine.calls.filter((call) => call === name).length;

test('an image is one of the registry’s, by tag, and nothing else', async (t) => {
  const compute = await openCompute(t);
  const ssh_key_ids = [await compute.key(ann)];
  for (const image of [
    ...[
      'debian',
      '-v',
      'http://x/y:1',
      `${REGISTRY}/ann/app`,
      `${REGISTRY}/ann/app@sha256:bad`,
      `${REGISTRY}/ANN/app:1`,
    ],
    ...[
      `${REGISTRY}/ann/app:1@sha256:${'0'.repeat(64)}`,
      `${REGISTRY}/bob/app:1`,
      `${REGISTRY}/ann/a․b:1`,
      `${REGISTRY}/../x:1`,
    ],
    ...[`${REGISTRY}/ann/${'a'.repeat(300)}:1`, ` ${REGISTRY}/ann/app:1`, `${REGISTRY}/ann/app:1\0`, ''],
  ]) {
    await refused('invalid_request', compute.call(createContainer, ann, { body: { name: 'x', ssh_key_ids, image } }));
  }
  refusesBody({ image: 'a'.repeat(10_000) });
  assert.deepEqual(
    compute.engine.calls.filter((call) => call.startsWith('ensureImage')),
    [],
  );
});

test('ports that are none, not allowed, or said in another way are refused', () => {
  for (const port of [0, -1, 81, 7999, 9000, 65_536, Number.NaN, '80', '80/tcp; rm', null, [80], 8000.5]) {
    for (const body of [
      { port },
      { port: 80, target_port: port === 81 || port === 7999 || port === 9000 ? 0 : port },
    ]) {
      assert.throws(
        () => callFrom(addIngress, ann, { params: { id: 'aaaaaaaaaaaa' }, body }),
        { code: 'invalid_request' },
        JSON.stringify(body),
      );
    }
  }
});

test('sizes outside their limits are refused', () => {
  for (const size of [-1, 0, 1e308, Number.POSITIVE_INFINITY, 1.5, '1Ei', '512', null]) {
    refusesBody({ memory_mb: size });
    refusesBody({ storage_gb: size });
    refusesBody({ instance_type: size });
  }
});

test('names that are empty, too long or strange are refused', () => {
  for (const name of ['', '-x', ' x', 'x'.repeat(64), 'a\0', 'a\nb', 'a=b', 'ünï', 'x'.repeat(1_000_000)])
    refusesBody({ name });
});

test('a field nobody knows is refused at creation', () => {
  for (const field of [
    'privileged',
    'host_network',
    'pid',
    'capabilities',
    'runtime',
    'security_opt',
    'user_id',
    'env',
    'command',
  ]) {
    refusesBody({ [field]: true });
  }
});

test('lists of a hundred thousand are refused', () => {
  const many = Array.from({ length: 100_000 }, (_, i) => i + 1);
  refusesBody({ command: many });
  refusesBody({ ssh_key_ids: many });
  refusesBody({ mount_paths: many.map((i) => `/data/${i}`) });
});

test('one name given twice at once makes two containers with ids of their own', async (t) => {
  const compute = await openCompute(t);
  const ssh_key_ids = [await compute.key(ann)];
  const ids = await Promise.all([compute.create(ann, { ssh_key_ids }), compute.create(ann, { ssh_key_ids })]);
  assert.notEqual(ids[0], ids[1]);
  for (const id of ids) await compute.reaches(ann, id, 'running');
});

describe('deleted while it is being made', () => {
  for (const step of ['ensureImage', 'create', 'start', 'dial'] as const) {
    test(`in the middle of ${step}, nothing is left`, async (t) => {
      const compute = await openCompute(t);
      const release = compute.engine.hold(step);
      const id = await compute.create(ann);
      await until(() => compute.engine.calls.some((call) => call.startsWith(step)));
      await compute.on(deleteContainer, ann, id);
      release();
      await until(async () => (await containerById(compute.db, id)) === undefined);
      await turns();
      assert.deepEqual(await compute.engine.list(), []);
      assert.deepEqual(await compute.list(ann), []);
    });
  }
});

test('a second stop is a conflict, and the engine is asked once', async (t) => {
  const compute = await openCompute(t);
  const id = await compute.running(ann);
  await compute.on(stopContainer, ann, id);
  await refused('conflict', compute.on(stopContainer, ann, id));
  await until(async () => (await compute.engine.inspect(id))?.phase === 'exited');
  await turns();
  assert.equal(callsOf(compute, `stop ${id}`), 1);
});

test('a start right after a stop makes a fresh start, though the stop was not done yet', async (t) => {
  const compute = await openCompute(t);
  const id = await compute.running(ann);
  const release = compute.engine.hold('inspect');
  await compute.on(stopContainer, ann, id);
  await compute.on(startContainer, ann, id);
  release();
  await compute.reaches(ann, id, 'running');
  assert.equal(callsOf(compute, `start ${id}`), 2);
});

describe('changed behind our back', () => {
  test('frozen: it goes on, and was running all the while', async (t) => {
    const compute = await openCompute(t);
    const id = await compute.running(ann);
    compute.engine.edit(id, { paused: true });
    await until(async () => (await compute.engine.inspect(id))?.paused === false);
    assert.equal((await compute.view(ann, id)).status, 'running');
    assert.equal((await compute.notices(ann.userId)).length, 1);
  });

  test('other limits: they are set back without a restart', async (t) => {
    const compute = await openCompute(t);
    const id = await compute.running(ann);
    compute.engine.edit(id, { limits: { cpus: 8, memoryMb: 99_999 } });
    await until(async () => (await compute.engine.inspect(id))?.limits?.cpus === 0.5);
    assert.equal(callsOf(compute, `start ${id}`), 1);
  });

  test('limits that cannot be set are let be, and looked at no more', async (t) => {
    const clamp = { cpus: 0.25, memoryMb: 512 };
    const compute = await openCompute(t, {
      wrapEngine: (engine) => ({
        ...engine,
        inspect: async (id) => {
          const state = await engine.inspect(id);
          return state === undefined ? undefined : { ...state, limits: clamp };
        },
        list: async (ids) => (await engine.list(ids)).map((state) => ({ ...state, limits: clamp })),
      }),
    });
    const id = await compute.running(ann);
    await until(() => callsOf(compute, `create ${id}`) === 2);
    await turns();
    for (let i = 0; i < 5; i++) {
      const before = callsOf(compute, 'list');
      compute.engine.reconnect();
      await until(() => callsOf(compute, 'list') > before);
      await turns();
    }
    assert.equal(callsOf(compute, `create ${id}`), 2);
    assert.equal((await compute.view(ann, id)).status, 'running');
  });

  test('limits that the engine refuses to change do not fail the container', async (t) => {
    const compute = await openCompute(t);
    const id = await compute.running(ann);
    compute.engine.fail('create', new EngineError('refused', 'It uses more than that.'));
    compute.engine.edit(id, { limits: { cpus: 1, memoryMb: 512 } });
    await until(() => callsOf(compute, `create ${id}`) === 2);
    await turns();
    assert.equal((await compute.view(ann, id)).status, 'running');
  });

  test('taken from its network: it is restarted, once', async (t) => {
    const compute = await openCompute(t);
    const id = await compute.running(ann);
    compute.engine.edit(id, { address: null });
    await until(() => callsOf(compute, `start ${id}`) === 2);
    await compute.reaches(ann, id, 'running');
    assert.equal((await compute.view(ann, id)).status, 'running');
    assert.equal((await compute.notices(ann.userId)).length, 1);
  });
});

describe('the engine goes away', () => {
  test('containers that ended with it did not crash, however often', async (t) => {
    const compute = await openCompute(t);
    const id = await compute.running(ann);
    for (let i = 0; i < 8; i++) {
      const before = callsOf(compute, `start ${id}`);
      const release = compute.engine.hold('inspect');
      compute.engine.crash(id);
      compute.engine.reconnect();
      release();
      await until(() => callsOf(compute, `start ${id}`) > before);
      await compute.reaches(ann, id, 'running');
    }
  });

  test('in the middle of any step, the step is done when it is back', async (t) => {
    const away = new EngineError('unavailable', 'away');
    const compute = await openCompute(t);
    for (const step of ['ensureImage', 'create', 'start', 'dial', 'inspect'] as const) {
      compute.engine.fail(step, away);
      const id = await compute.running(ann);
      compute.engine.fail('stop', away);
      await compute.on(stopContainer, ann, id);
      await until(async () => (await compute.engine.inspect(id))?.phase === 'exited');
      compute.engine.fail('remove', away);
      await compute.on(deleteContainer, ann, id);
      await until(async () => (await containerById(compute.db, id)) === undefined);
    }
    assert.deepEqual(await compute.engine.list(), []);
  });
});

test('a container that came up without a network is started anew', async (t) => {
  let starts = 0;
  const compute = await openCompute(t, {
    engine: {
      onStart: (id, engine) => {
        starts++;
        if (starts > 1) engine.listen(id, 22, (stream) => void stream.write('SSH-2.0-x\r\n'));
      },
    },
  });
  const id = await compute.create(ann);
  await until(() => callsOf(compute, `dial ${id}`) > 0);
  compute.clock.advance(50_000);
  await compute.reaches(ann, id, 'running');
  assert.equal(starts, 2);
  assert.deepEqual(await compute.notices(ann.userId), ['Container started: "box" is running.']);
});

describe('the platform dies between the engine’s work and its own word of it', () => {
  for (const step of ['create', 'start'] as const) {
    test(`after ${step}: the next one adopts what there is`, async (t) => {
      const compute = await openCompute(t);
      const { tx } = compute.db;
      // The engine does it; nobody can write it down.
      compute.db.tx = () => Promise.reject(new EngineError('unavailable', 'dying'));
      const create = compute.db.tx;
      compute.db.tx = tx;
      const id = await compute.create(ann);
      compute.db.tx = create;
      await until(() => callsOf(compute, `${step} ${id}`) > 0);
      await compute.stop();
      compute.db.tx = tx;
      await compute.start();
      await compute.reaches(ann, id, 'running');
      assert.equal((await compute.engine.list()).length, 1);
      assert.ok(callsOf(compute, `start ${id}`) <= 2);
    });
  }

  test('a container whose creation outlasted its deletion is removed', async (t) => {
    const compute = await openCompute(t);
    const id = await compute.running(ann);
    const spec = compute.engine.specOf(id) ?? assert.fail();
    await compute.on(deleteContainer, ann, id);
    await until(async () => (await containerById(compute.db, id)) === undefined);
    await compute.engine.create(spec);
    await until(async () => (await compute.engine.list()).length === 0);
    assert.ok(compute.log.lines.some(({ message }) => message.includes('outlasted')));
  });

  test('a container that this installation never had is left to a person', async (t) => {
    const compute = await openCompute(t);
    await compute.running(ann);
    const { baseImage } = compute.engine;
    await compute.engine.create({
      ...{ id: newId(), userId: ann.userId, hostname: 'x', image: baseImage, cpus: 1, memoryMb: 128, storageGb: 1 },
      ...{ mountPaths: ['/root'], authorizedKeys: [] },
    });
    compute.engine.reconnect();
    await until(() => compute.log.lines.some(({ message }) => message.includes('does not know')));
    assert.equal((await compute.engine.list()).length, 2);
  });
});

test('whatever is changed at once, the last word of each holds', async (t) => {
  const compute = await openCompute(t);
  const id = await compute.running(ann);
  const params = { id };
  await Promise.all(
    Array.from({ length: 20 }, (_, i) => [
      compute.call(setSsh, ann, { params, body: { ssh_enabled: i % 2 === 0 } }),
      compute.call(setMounts, ann, { params, body: { mount_paths: [`/d${i}`] } }),
    ]).flat(),
  );
  await compute.reaches(ann, id, 'running');
  await until(() => compute.engine.specOf(id)?.mountPaths.join() === '/d19');
  await until(() => compute.engine.keysOf(id).length === 1);
  await compute.reaches(ann, id, 'running');
});
