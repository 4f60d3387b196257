/** What a container must not be made of, and what must not bring one out of step. C01 and C15 stand with mounts and terminals. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  addIngress,
  createContainer,
  deleteContainer,
  setMounts,
  setSsh,
  startContainer,
  stopContainer,
} from '../../proto/compute/endpoints.ts';
import { newId } from '../../proto/ids.ts';
import { EngineError } from '../../proto/ports/engine.ts';
import { containerById } from '../../storage/compute/containers.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { callFrom, openWorld, REGISTRY, refused, someone, turns, type World } from '../support/service/compute.ts';
import { until } from '../support/until.ts';

failOnLeaks();

const ann = someone();
const good = { name: 'x', ssh_key_ids: [1] };
const refusesBody = (body: object) =>
  assert.throws(
    () => callFrom(createContainer, ann, { body: { ...good, ...body } }),
    { code: 'invalid_request' },
    JSON.stringify(body).slice(0, 80),
  );
const callsOf = (world: World, name: string) => world.engine.calls.filter((call) => call === name).length;

test('C02: an image is one of the registry’s, by tag, and nothing else', async (t) => {
  const world = await openWorld(t);
  const ssh_key_ids = [await world.key(ann)];
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
    await refused('invalid_request', world.call(createContainer, ann, { body: { name: 'x', ssh_key_ids, image } }));
  }
  refusesBody({ image: 'a'.repeat(10_000) });
  assert.deepEqual(
    world.engine.calls.filter((call) => call.startsWith('ensureImage')),
    [],
  );
});

test('C03: ports that are none, not allowed, or said in another way are refused', () => {
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

test('C04: sizes outside their limits are refused', () => {
  for (const size of [-1, 0, 1e308, Number.POSITIVE_INFINITY, 1.5, '1Ei', '512', null]) {
    refusesBody({ memory_mb: size });
    refusesBody({ storage_gb: size });
    refusesBody({ instance_type: size });
  }
});

test('C05: names that are empty, too long or strange are refused', () => {
  for (const name of ['', '-x', ' x', 'x'.repeat(64), 'a\0', 'a\nb', 'a=b', 'ünï', 'x'.repeat(1_000_000)])
    refusesBody({ name });
});

test('C06: a field nobody knows is refused at creation', () => {
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

test('C07: lists of a hundred thousand are refused', () => {
  const many = Array.from({ length: 100_000 }, (_, i) => i + 1);
  refusesBody({ command: many });
  refusesBody({ ssh_key_ids: many });
  refusesBody({ mount_paths: many.map((i) => `/data/${i}`) });
});

test('C08: one name given twice at once makes two containers with ids of their own', async (t) => {
  const world = await openWorld(t);
  const ssh_key_ids = [await world.key(ann)];
  const ids = await Promise.all([world.create(ann, { ssh_key_ids }), world.create(ann, { ssh_key_ids })]);
  assert.notEqual(ids[0], ids[1]);
  for (const id of ids) await world.reaches(ann, id, 'running');
});

describe('C09: deleted while it is being made', () => {
  for (const step of ['ensureImage', 'create', 'start', 'dial'] as const) {
    test(`in the middle of ${step}, nothing is left`, async (t) => {
      const world = await openWorld(t);
      const release = world.engine.hold(step);
      const id = await world.create(ann);
      await until(() => world.engine.calls.some((call) => call.startsWith(step)));
      await world.on(deleteContainer, ann, id);
      release();
      await until(async () => (await containerById(world.db, id)) === undefined);
      await turns();
      assert.deepEqual(await world.engine.list(), []);
      assert.deepEqual(await world.list(ann), []);
    });
  }
});

test('C10: a second stop is a conflict, and the engine is asked once', async (t) => {
  const world = await openWorld(t);
  const id = await world.running(ann);
  await world.on(stopContainer, ann, id);
  await refused('conflict', world.on(stopContainer, ann, id));
  await until(async () => (await world.engine.inspect(id))?.phase === 'exited');
  await turns();
  assert.equal(callsOf(world, `stop ${id}`), 1);
});

test('a start right after a stop makes a fresh start, though the stop was not done yet', async (t) => {
  const world = await openWorld(t);
  const id = await world.running(ann);
  const release = world.engine.hold('inspect');
  await world.on(stopContainer, ann, id);
  await world.on(startContainer, ann, id);
  release();
  await world.reaches(ann, id, 'running');
  assert.equal(callsOf(world, `start ${id}`), 2);
});

describe('C12: changed behind our back', () => {
  test('frozen: it goes on, and was running all the while', async (t) => {
    const world = await openWorld(t);
    const id = await world.running(ann);
    world.engine.edit(id, { paused: true });
    await until(async () => (await world.engine.inspect(id))?.paused === false);
    assert.equal((await world.view(ann, id)).status, 'running');
    assert.equal((await world.notices(ann.userId)).length, 1);
  });

  test('other limits: they are set back without a restart', async (t) => {
    const world = await openWorld(t);
    const id = await world.running(ann);
    world.engine.edit(id, { limits: { cpus: 8, memoryMb: 99_999 } });
    await until(async () => (await world.engine.inspect(id))?.limits?.cpus === 0.5);
    assert.equal(callsOf(world, `start ${id}`), 1);
  });

  test('limits that cannot be set are let be, and looked at no more', async (t) => {
    const clamp = { cpus: 0.25, memoryMb: 512 };
    const world = await openWorld(t, {
      wrapEngine: (engine) => ({
        ...engine,
        inspect: async (id) => {
          const state = await engine.inspect(id);
          return state === undefined ? undefined : { ...state, limits: clamp };
        },
        list: async () => (await engine.list()).map((state) => ({ ...state, limits: clamp })),
      }),
    });
    const id = await world.running(ann);
    await until(() => callsOf(world, `create ${id}`) === 2);
    await turns();
    for (let i = 0; i < 5; i++) {
      const before = callsOf(world, 'list');
      world.engine.reconnect();
      await until(() => callsOf(world, 'list') > before);
      await turns();
    }
    assert.equal(callsOf(world, `create ${id}`), 2);
    assert.equal((await world.view(ann, id)).status, 'running');
  });

  test('limits that the engine refuses to change do not fail the container', async (t) => {
    const world = await openWorld(t);
    const id = await world.running(ann);
    world.engine.fail('create', new EngineError('refused', 'It uses more than that.'));
    world.engine.edit(id, { limits: { cpus: 1, memoryMb: 512 } });
    await until(() => callsOf(world, `create ${id}`) === 2);
    await turns();
    assert.equal((await world.view(ann, id)).status, 'running');
  });

  test('taken from its network: it is restarted, once', async (t) => {
    const world = await openWorld(t);
    const id = await world.running(ann);
    world.engine.edit(id, { address: null });
    await until(() => callsOf(world, `start ${id}`) === 2);
    await world.reaches(ann, id, 'running');
    assert.equal((await world.view(ann, id)).status, 'running');
    assert.equal((await world.notices(ann.userId)).length, 1);
  });
});

describe('C14: the engine goes away', () => {
  test('containers that ended with it did not crash, however often', async (t) => {
    const world = await openWorld(t);
    const id = await world.running(ann);
    for (let i = 0; i < 8; i++) {
      const before = callsOf(world, `start ${id}`);
      const release = world.engine.hold('inspect');
      world.engine.crash(id);
      world.engine.reconnect();
      release();
      await until(() => callsOf(world, `start ${id}`) > before);
      await world.reaches(ann, id, 'running');
    }
  });

  test('in the middle of any step, the step is done when it is back', async (t) => {
    const away = new EngineError('unavailable', 'away');
    const world = await openWorld(t);
    for (const step of ['ensureImage', 'create', 'start', 'dial', 'inspect'] as const) {
      world.engine.fail(step, away);
      const id = await world.running(ann);
      world.engine.fail('stop', away);
      await world.on(stopContainer, ann, id);
      await until(async () => (await world.engine.inspect(id))?.phase === 'exited');
      world.engine.fail('remove', away);
      await world.on(deleteContainer, ann, id);
      await until(async () => (await containerById(world.db, id)) === undefined);
    }
    assert.deepEqual(await world.engine.list(), []);
  });
});

test('C14: a container that came up without a network is started anew', async (t) => {
  let starts = 0;
  const world = await openWorld(t, {
    engine: {
      onStart: (id, engine) => {
        starts++;
        if (starts > 1) engine.listen(id, 22, (stream) => void stream.write('SSH-2.0-x\r\n'));
      },
    },
  });
  const id = await world.create(ann);
  await until(() => callsOf(world, `dial ${id}`) > 0);
  world.clock.advance(50_000);
  await world.reaches(ann, id, 'running');
  assert.equal(starts, 2);
  assert.deepEqual(await world.notices(ann.userId), ['Container started: "box" is running.']);
});

describe('C16: the platform dies between the engine’s work and its own word of it', () => {
  for (const step of ['create', 'start'] as const) {
    test(`after ${step}: the next one adopts what there is`, async (t) => {
      const world = await openWorld(t);
      const { tx } = world.db;
      // The engine does it; nobody can write it down.
      world.db.tx = () => Promise.reject(new EngineError('unavailable', 'dying'));
      const create = world.db.tx;
      world.db.tx = tx;
      const id = await world.create(ann);
      world.db.tx = create;
      await until(() => callsOf(world, `${step} ${id}`) > 0);
      await world.stop();
      world.db.tx = tx;
      await world.start();
      await world.reaches(ann, id, 'running');
      assert.equal((await world.engine.list()).length, 1);
      assert.ok(callsOf(world, `start ${id}`) <= 2);
    });
  }

  test('a container whose creation outlasted its deletion is removed', async (t) => {
    const world = await openWorld(t);
    const id = await world.running(ann);
    const spec = world.engine.specOf(id) ?? assert.fail();
    await world.on(deleteContainer, ann, id);
    await until(async () => (await containerById(world.db, id)) === undefined);
    await world.engine.create(spec);
    await until(async () => (await world.engine.list()).length === 0);
    assert.ok(world.log.lines.some(({ message }) => message.includes('outlasted')));
  });

  test('a container that this installation never had is left to a person', async (t) => {
    const world = await openWorld(t);
    await world.running(ann);
    const { baseImage } = world.engine;
    await world.engine.create({
      ...{ id: newId(), userId: ann.userId, hostname: 'x', image: baseImage, cpus: 1, memoryMb: 128, storageGb: 1 },
      ...{ mountPaths: ['/root'], authorizedKeys: [] },
    });
    world.engine.reconnect();
    await until(() => world.log.lines.some(({ message }) => message.includes('does not know')));
    assert.equal((await world.engine.list()).length, 2);
  });
});

test('whatever is changed at once, the last word of each holds', async (t) => {
  const world = await openWorld(t);
  const id = await world.running(ann);
  const params = { id };
  await Promise.all(
    Array.from({ length: 20 }, (_, i) => [
      world.call(setSsh, ann, { params, body: { ssh_enabled: i % 2 === 0 } }),
      world.call(setMounts, ann, { params, body: { mount_paths: [`/d${i}`] } }),
    ]).flat(),
  );
  await world.reaches(ann, id, 'running');
  await until(() => world.engine.specOf(id)?.mountPaths.join() === '/d19');
  await until(() => world.engine.keysOf(id).length === 1);
  await world.reaches(ann, id, 'running');
});
