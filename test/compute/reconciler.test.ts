import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { deleteContainer, startContainer, stopContainer } from '../../proto/compute/endpoints.ts';
import { newId } from '../../proto/ids.ts';
import { EngineError } from '../../proto/ports/engine.ts';
import { containerById } from '../../storage/compute/containers.ts';
import { StorageError } from '../../storage/errors.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { openWorld, REGISTRY, refused, someone, turns, type World } from '../support/service/compute.ts';
import { until } from '../support/until.ts';

failOnLeaks();

const MINUTES = 60_000;
const ann = someone();
const startsOf = (world: World, id: string) => world.engine.calls.filter((name) => name === `start ${id}`).length;
const row = async (world: World, id: string) => {
  const found = await containerById(world.db, id);
  assert.ok(found);
  return found;
};

describe('a container that cannot be started', () => {
  test('C11: fails at once with the reason when there is no such image', async (t) => {
    const image = `${REGISTRY}/ann/gone:1`;
    const world = await openWorld(t);
    const socket = await world.updates(ann);
    const id = await world.create(ann, { image });
    await world.reaches(ann, id, 'failed');
    const reason = `The image ${image} cannot be pulled: not found`;
    assert.equal(await world.reason(id), reason);
    assert.deepEqual(await world.notices(ann.userId), [`Container stopped: "box": ${reason}.`]);
    await until(() => socket.texts.at(-1)?.includes('"status":"failed"'));
  });

  test('fails when the engine refuses it', async (t) => {
    const world = await openWorld(t);
    world.engine.fail('create', new EngineError('refused', 'No space left.'));
    const id = await world.create(ann);
    await world.reaches(ann, id, 'failed');
    assert.equal((await world.reason(id)) ?? '', 'No space left.');
  });

  test('is tried again when the engine is not available for a moment', async (t) => {
    const world = await openWorld(t);
    world.engine.fail('create', new EngineError('unavailable', 'busy'));
    const id = await world.running(ann);
    assert.equal(world.engine.calls.filter((name) => name === `create ${id}`).length, 2);
  });

  test('fails after ten minutes, with what stood in the way', async (t) => {
    const world = await openWorld(t);
    world.engine.fail('ensureImage', new EngineError('unavailable', 'the registry does not answer'), 1000);
    const id = await world.create(ann);
    await until(() => world.engine.calls.some((name) => name.startsWith('ensureImage')));
    world.clock.advance(10 * MINUTES + 1000);
    await world.reaches(ann, id, 'failed');
    assert.equal((await world.reason(id)) ?? '', 'the registry does not answer');
  });

  test('fails after ten minutes when the engine says nothing at all', async (t) => {
    const world = await openWorld(t);
    const release = world.engine.hold('ensureImage');
    t.after(release);
    const id = await world.create(ann);
    await until(() => world.engine.calls.some((name) => name.startsWith('ensureImage')));
    world.clock.advance(10 * MINUTES + 1000);
    world.engine.reconnect();
    await world.reaches(ann, id, 'failed');
    assert.match((await world.reason(id)) ?? '', /10 minutes/);
    release();
    await until(() => world.engine.calls.at(-1) === `inspect ${id}`);
    await turns();
    assert.equal((await world.view(ann, id)).status, 'failed');
    assert.equal(startsOf(world, id), 0);
    world.clock.advance(-10 * MINUTES - 1000);
    await world.on(startContainer, ann, id);
    await world.reaches(ann, id, 'running');
  });

  test('fails after ten minutes when nothing in it ever answers, and is stopped', async (t) => {
    const world = await openWorld(t, { engine: { onStart: () => {} } });
    const id = await world.create(ann);
    await world.reaches(ann, id, 'initializing');
    await until(() => world.engine.calls.includes(`dial ${id}`));
    world.clock.advance(10 * MINUTES + 1000);
    await world.reaches(ann, id, 'failed');
    assert.match((await world.reason(id)) ?? '', /not ready within 10 minutes/);
    world.engine.reconnect();
    await until(async () => (await world.engine.inspect(id))?.phase === 'exited');
    assert.equal((await world.view(ann, id)).status, 'failed');
  });

  test('runs without SSH when it is an image of its own and its workload stands', async (t) => {
    const image = `${REGISTRY}/ann/app:1`;
    const world = await openWorld(t, { engine: { images: [image], onStart: () => {} } });
    const id = await world.create(ann, { image });
    await world.reaches(ann, id, 'initializing');
    await until(() => world.engine.calls.includes(`dial ${id}`));
    world.clock.advance(15_000);
    await world.reaches(ann, id, 'running');
  });

  test('runs without SSH as soon as its workload does, when it is an image that has no SSH server', async (t) => {
    const image = `${REGISTRY}/ann/app:1`;
    const world = await openWorld(t, { engine: { images: [image], onStart: () => {}, hasSshServer: false } });
    const id = await world.create(ann, { image });
    // Before the clock says that it has stood for long.
    await world.reaches(ann, id, 'running');
    assert.equal((await row(world, id)).statusReason, null);
  });

  test('says what is tried, what came back and when it is tried again, to those who look and to those who list', async (t) => {
    const world = await openWorld(t);
    world.engine.fail('ensureImage', new EngineError('unavailable', 'The registry does not answer'), 1000);
    const id = await world.create(ann);
    const reason = /^The registry does not answer\. The next try is at \d\d:\d\d:\d\d UTC\.$/;
    await until(async () => reason.test((await world.view(ann, id)).status_reason ?? ''));
    assert.match((await world.list(ann))[0]?.status_reason ?? '', reason);
    assert.equal((await world.view(ann, id)).status, 'pending');
    await world.on(stopContainer, ann, id);
    assert.equal((await world.view(ann, id)).status_reason, undefined);
  });

  test('is not ready while something else than SSH answers', async (t) => {
    let greeting = 'HTTP/1.1 400 Bad Request\r\n';
    const world = await openWorld(t, {
      engine: { onStart: (id, engine) => engine.listen(id, 22, (stream) => void stream.write(greeting)) },
    });
    const id = await world.create(ann);
    await until(() => world.engine.calls.filter((name) => name === `dial ${id}`).length >= 2);
    assert.equal((await world.view(ann, id)).status, 'initializing');
    greeting = 'SSH-2.0-dropbear\r\n';
    await world.reaches(ann, id, 'running');
  });
});

describe('a workload that ends', () => {
  test('is started again: initializing with the reason, then running without', async (t) => {
    const world = await openWorld(t);
    const id = await world.running(ann);
    const socket = await world.updates(ann);
    world.engine.crash(id, { exitCode: 3 });
    await until(() => socket.texts.length === 3);
    assert.match(socket.texts[1] ?? '', /"initializing"/);
    assert.equal(
      (await world.notices(ann.userId)).at(-1),
      'Container stopped: "box": restarting: it ended with exit code 3.',
    );
    assert.match(socket.texts[2] ?? '', /"status":"running","external_ip":"10.0.0.2"\}/);
    assert.equal((await row(world, id)).statusReason, null);
  });

  test('C11: says when memory ran out', async (t) => {
    const world = await openWorld(t);
    const id = await world.running(ann);
    const socket = await world.updates(ann);
    world.engine.crash(id, { oomKilled: true });
    await until(() => socket.texts.length === 3);
    assert.match((await world.notices(ann.userId)).at(-1) ?? '', /it ran out of memory/);
  });

  test('was not a crash when it ended before this start was asked for', async (t) => {
    const world = await openWorld(t);
    const id = await world.running(ann);
    await world.on(stopContainer, ann, id);
    await until(async () => (await world.engine.inspect(id))?.phase === 'exited');
    world.engine.fail('start', new EngineError('unavailable', 'busy'));
    await world.on(startContainer, ann, id);
    await world.reaches(ann, id, 'running');
    assert.equal((await world.notices(ann.userId)).join().includes('restarting'), false);
  });

  test('has its crashes forgotten once it ran for a minute', async (t) => {
    const world = await openWorld(t);
    const id = await world.running(ann);
    // More than may happen in a row, and none of them waits for the pause between two crashes.
    world.clock.advance(61_000);
    for (let i = 0; i < 7; i++) {
      const before = startsOf(world, id);
      world.engine.crash(id);
      await until(() => startsOf(world, id) > before);
      await world.reaches(ann, id, 'running');
    }
    assert.equal((await world.view(ann, id)).status, 'running');
  });

  test('the pause after the second crash in a row is not cut short by more news of it', async (t) => {
    const world = await openWorld(t);
    const id = await world.running(ann);
    world.engine.crash(id);
    await until(() => startsOf(world, id) === 2);
    await world.reaches(ann, id, 'running');
    const release = world.engine.hold('inspect');
    world.engine.crash(id);
    await until(() => world.engine.calls.at(-1) === `inspect ${id}`);
    // An engine tells of one end more than once: it was killed, it died, it stopped.
    for (let i = 0; i < 3; i++) world.engine.tell(id);
    release();
    await world.reaches(ann, id, 'initializing');
    for (let i = 0; i < 3; i++) world.engine.tell(id);
    await turns();
    assert.equal(startsOf(world, id), 2);
    // A new wish is not kept waiting.
    await world.on(stopContainer, ann, id);
    await world.on(startContainer, ann, id);
    await world.reaches(ann, id, 'running', 1500);
  });
});

describe('C12: a container changed behind our back', () => {
  test('removed: it is made again, each time anew', async (t) => {
    const world = await openWorld(t);
    const id = await world.running(ann);
    const socket = await world.updates(ann);
    world.engine.lose(id);
    await until(() => socket.texts.length === 3);
    assert.match(socket.texts[1] ?? '', /"initializing"/);
    assert.match(socket.texts[2] ?? '', /"running"/);
    world.engine.lose(id);
    await until(() => socket.texts.length === 5);
    assert.match(socket.texts[3] ?? '', /"initializing"/);
    assert.match(socket.texts[4] ?? '', /"running"/);
    assert.match((await world.notices(ann.userId)).at(-1) ?? '', /it was removed from outside/);
  });

  test('with its data: it fails and says so, and begins empty only when that is asked for', async (t) => {
    const world = await openWorld(t);
    const id = await world.running(ann);
    world.engine.loseData(id);
    await world.reaches(ann, id, 'failed');
    assert.match((await world.view(ann, id)).status_reason ?? '', /^its data at \/root is gone: /);
    assert.match((await world.notices(ann.userId)).at(-1) ?? '', /"box": its data at \/root is gone: .*\?discard=true/);
    await world.on(startContainer, ann, id);
    await world.reaches(ann, id, 'failed');
    assert.equal(world.engine.files(id), undefined);
    await world.call(startContainer, ann, { params: { id }, query: { discard: 'true' } });
    await world.reaches(ann, id, 'running');
    // What was made then is its data now.
    world.engine.loseData(id);
    await world.reaches(ann, id, 'failed');
  });

  test('restarted with another address: the address is updated, and it ran all the while', async (t) => {
    const world = await openWorld(t);
    const id = await world.running(ann);
    const socket = await world.updates(ann);
    const release = world.engine.hold('inspect');
    world.engine.crash(id);
    await world.engine.start(id, world.engine.keysOf(id));
    release();
    await until(() => socket.texts.length === 2);
    assert.match(socket.texts[1] ?? '', /"status":"running","external_ip":"10.0.0.2"/);
    assert.equal((await row(world, id)).address, '10.0.0.2');
  });

  test('stopped when it should run: started; started when it should not run: stopped', async (t) => {
    const world = await openWorld(t);
    const id = await world.running(ann);
    await world.engine.stop(id, 1);
    await until(() => startsOf(world, id) === 2);
    await world.reaches(ann, id, 'running');
    await world.on(stopContainer, ann, id);
    await until(async () => (await world.engine.inspect(id))?.phase === 'exited');
    await world.engine.start(id, []);
    await until(async () => (await world.engine.inspect(id))?.phase === 'exited');
    assert.equal((await world.view(ann, id)).status, 'stopped');
  });

  test('all events lost: the comparison of all with all repairs it', async (t) => {
    let changed: (id: string | undefined) => void = () => {};
    const world = await openWorld(t, {
      wrapEngine: (engine) => ({
        ...engine,
        watch: (onChange) => {
          changed = onChange;
          return { close: async () => {} };
        },
      }),
    });
    const id = await world.running(ann);
    world.engine.lose(id);
    await turns();
    assert.equal((await world.view(ann, id)).status, 'running');
    changed(undefined);
    await until(() => startsOf(world, id) === 2);
    await world.reaches(ann, id, 'running');
    // And without any word from the engine, the next beat of the watcher's own clock.
    world.engine.lose(id);
    await until(() => startsOf(world, id) === 3);
  });

  test('one that the database does not know is left alone, and said once', async (t) => {
    const world = await openWorld(t);
    const id = newId();
    const { baseImage } = world.engine;
    await world.engine.ensureImage(baseImage, { always: false });
    await world.engine.create({
      ...{ id, userId: newId(), hostname: 'x', image: baseImage, cpus: 1, memoryMb: 128, storageGb: 1 },
      ...{ mountPaths: ['/root'], authorizedKeys: [] },
    });
    await world.engine.start(id, []);
    const listed = () => world.engine.calls.filter((name) => name === 'list').length;
    for (let i = 0; i < 3; i++) {
      const before = listed();
      world.engine.reconnect();
      await until(() => listed() > before);
    }
    await until(() => world.log.lines.some(({ level }) => level === 'warn'));
    await turns();
    assert.equal(world.log.lines.filter(({ message }) => message.includes('does not know')).length, 1);
    assert.equal((await world.engine.inspect(id))?.phase, 'running');
  });

  test('one whose deletion ends between two looks is no stranger', async (t) => {
    const world = await openWorld(t);
    const id = await world.running(ann);
    // The list is taken while the container is there; the rows are read when all of it is gone.
    const release = world.engine.hold('remove');
    await world.on(deleteContainer, ann, id);
    await until(() => world.engine.calls.includes(`remove ${id}`));
    const many = world.db.many.bind(world.db);
    world.db.many = async (schema, text, values) => {
      if (text.includes('keys_applied\n     from containers')) {
        release();
        await until(async () => (await world.db.run('select from containers')) === 0);
      }
      return many(schema, text, values);
    };
    world.engine.reconnect();
    await until(() => world.engine.calls.at(-1) === `inspect ${id}`);
    await turns();
    assert.deepEqual(
      world.log.lines.filter(({ message }) => message.includes('does not know')),
      [],
    );
  });
});

describe('work of a wish that was taken back', () => {
  test('a start that is done after the stop leaves it stopped, and nothing runs', async (t) => {
    const world = await openWorld(t);
    const release = world.engine.hold('start');
    const id = await world.create(ann);
    await until(() => startsOf(world, id) === 1);
    const socket = await world.updates(ann);
    await world.on(stopContainer, ann, id);
    release();
    await until(() => world.engine.calls.includes(`stop ${id}`));
    await until(async () => (await world.engine.inspect(id))?.phase === 'exited');
    await turns();
    assert.equal((await world.view(ann, id)).status, 'stopped');
    assert.equal(socket.texts.filter((text) => text.includes('"running"')).length, 0);
  });

  test('a readiness found after the stop does not make it running', async (t) => {
    const world = await openWorld(t);
    const release = world.engine.hold('dial');
    const id = await world.create(ann);
    await until(() => world.engine.calls.includes(`dial ${id}`));
    await world.on(stopContainer, ann, id);
    release();
    await until(() => world.engine.calls.includes(`stop ${id}`));
    await turns();
    assert.equal((await row(world, id)).status, 'stopped');
  });

  test('a failure after the stop does not make it failed', async (t) => {
    const world = await openWorld(t);
    const release = world.engine.hold('ensureImage');
    world.engine.fail('ensureImage', new EngineError('image_not_found', 'gone'));
    const id = await world.create(ann);
    await until(() => world.engine.calls.some((name) => name.startsWith('ensureImage')));
    await world.on(stopContainer, ann, id);
    const looks = world.engine.calls.filter((name) => name === `inspect ${id}`).length;
    release();
    await until(() => world.engine.calls.filter((name) => name === `inspect ${id}`).length > looks);
    await turns();
    assert.equal((await row(world, id)).status, 'stopped');
  });

  test('a failure of the start before the last does not fail the last one', async (t) => {
    const world = await openWorld(t);
    const socket = await world.updates(ann);
    const release = world.engine.hold('ensureImage');
    world.engine.fail('ensureImage', new EngineError('image_not_found', 'gone'));
    const id = await world.create(ann);
    await until(() => world.engine.calls.some((name) => name.startsWith('ensureImage')));
    await world.on(stopContainer, ann, id);
    await world.on(startContainer, ann, id);
    release();
    await world.reaches(ann, id, 'running');
    assert.equal(socket.texts.join().includes('"failed"'), false);
  });

  test('a failure found for an actor that has been woken anew meanwhile is not its own', async (t) => {
    const world = await openWorld(t);
    const socket = await world.updates(ann);
    const release = world.engine.hold('ensureImage');
    world.engine.fail('ensureImage', new EngineError('image_not_found', 'gone'));
    const id = await world.create(ann);
    const pulls = () => world.engine.calls.filter((name) => name.startsWith('ensureImage')).length;
    await until(() => pulls() === 1);
    world.db.failure = new TypeError('a defect');
    await refused('internal', world.on(stopContainer, ann, id));
    world.db.failure = undefined;
    await world.view(ann, id);
    world.engine.reconnect();
    await until(() => pulls() === 2);
    release();
    await world.reaches(ann, id, 'running');
    assert.equal(socket.texts.join().includes('"failed"'), false);
  });

  test('a stop that is done after the start ends in running', async (t) => {
    const world = await openWorld(t);
    const id = await world.running(ann);
    const release = world.engine.hold('stop');
    await world.on(stopContainer, ann, id);
    await until(() => world.engine.calls.includes(`stop ${id}`));
    await world.on(startContainer, ann, id);
    release();
    await world.reaches(ann, id, 'running');
    assert.equal((await world.engine.inspect(id))?.phase, 'running');
  });

  test('whatever the order of wishes, the last one holds', async (t) => {
    const world = await openWorld(t);
    const id = await world.running(ann);
    for (let i = 0; i < 12; i++) {
      await world.on(i % 2 === 0 ? stopContainer : startContainer, ann, id);
      if (i % 3 === 0) await turns(i);
    }
    await world.reaches(ann, id, 'running');
    await until(async () => (await world.engine.inspect(id))?.phase === 'running');
    await world.on(stopContainer, ann, id);
    await world.on(deleteContainer, ann, id);
    await until(async () => (await world.db.run('select from containers')) === 0);
    assert.deepEqual(await world.engine.list(), []);
  });
});

describe('a service that was stopped and started again', () => {
  test('running ones stay, pending ones go on, deleted ones are finished', async (t) => {
    const world = await openWorld(t);
    const ssh_key_ids = [await world.key(ann)];
    const running = await world.running(ann, { ssh_key_ids });
    const removed = await world.running(ann, { ssh_key_ids });
    const [releaseRemove, releaseImage] = [world.engine.hold('remove'), world.engine.hold('ensureImage')];
    const pending = await world.create(ann, { ssh_key_ids });
    await until(() => world.engine.calls.filter((name) => name.startsWith('ensureImage')).length === 3);
    await world.on(deleteContainer, ann, removed);
    await until(() => world.engine.calls.includes(`remove ${removed}`));
    await world.stop();
    // What was under way then never comes about: the process is gone.
    world.engine.fail('ensureImage', new EngineError('unavailable', 'gone'));
    world.engine.fail('remove', new EngineError('unavailable', 'gone'));
    releaseRemove();
    releaseImage();
    await turns();
    assert.equal((await row(world, pending)).status, 'pending');
    const started = (await row(world, running)).statusSince;
    await world.start();
    assert.equal((await world.view(ann, running)).status, 'running');
    await world.reaches(ann, pending, 'running');
    await until(async () => (await world.db.run('select from containers')) === 2);
    assert.equal(startsOf(world, running), 1);
    assert.deepEqual((await row(world, running)).statusSince, started);
    assert.equal((await world.engine.list()).length, 2);
  });

  test('one that ended meanwhile is started again', async (t) => {
    const world = await openWorld(t);
    const id = await world.running(ann);
    await world.stop();
    world.engine.crash(id);
    await world.start();
    await until(() => startsOf(world, id) === 2);
    await world.reaches(ann, id, 'running');
  });

  test('one that stopped between creation and start goes on', async (t) => {
    const world = await openWorld(t);
    const release = world.engine.hold('start');
    const id = await world.create(ann);
    await world.reaches(ann, id, 'initializing');
    world.engine.fail('start', new EngineError('unavailable', 'gone'));
    await world.stop();
    release();
    await world.start();
    await world.reaches(ann, id, 'running');
  });
});

describe('while the database is away', () => {
  test('a status that could not be written is written later, and nobody hears of it before', async (t) => {
    const world = await openWorld(t);
    const id = await world.running(ann);
    const socket = await world.updates(ann);
    world.db.failure = new StorageError('unavailable', 'gone');
    world.engine.crash(id, { exitCode: 9 });
    await until(() => world.log.lines.some(({ message }) => message.includes('could not be written')));
    assert.equal(socket.texts.length, 1);
    world.engine.reconnect();
    await until(() => world.log.lines.some(({ message }) => message.includes('sweep over all containers failed')));
    world.db.failure = undefined;
    await until(() => socket.texts.length === 3);
    assert.match(socket.texts[1] ?? '', /"initializing"/);
    assert.match((await world.notices(ann.userId)).at(-1) ?? '', /exit code 9/);
    assert.match(socket.texts[2] ?? '', /"running"/);
  });

  test('a fault in the middle of work wakes the container anew, and it goes on', async (t) => {
    const world = await openWorld(t);
    const id = await world.running(ann);
    const { tx } = world.db;
    world.db.tx = () => Promise.reject(new TypeError('a defect'));
    world.engine.crash(id);
    await until(() => world.log.lines.some(({ fields }) => JSON.stringify(fields).includes('compute/container')));
    world.db.tx = tx;
    world.engine.reconnect();
    await until(() => startsOf(world, id) === 2);
    await world.reaches(ann, id, 'running');
  });

  test('a wish that could not be written is refused, and changes nothing', async (t) => {
    const world = await openWorld(t);
    const id = await world.running(ann);
    world.db.failure = new StorageError('unavailable', 'gone');
    await refused('unavailable', world.on(stopContainer, ann, id));
    world.db.failure = undefined;
    assert.equal((await world.view(ann, id)).status, 'running');
    await world.on(stopContainer, ann, id);
  });
});
