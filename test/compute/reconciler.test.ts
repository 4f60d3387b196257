import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { deleteContainer, startContainer, stopContainer } from '../../proto/compute/endpoints.ts';
import { newId } from '../../proto/ids.ts';
import { EngineError } from '../../proto/ports/engine.ts';
import { containerById } from '../../storage/compute/containers.ts';
import { StorageError } from '../../storage/errors.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { refused, someone } from '../support/service/calls.ts';
import { type ComputeUnderTest, openCompute, REGISTRY } from '../support/service/compute.ts';
import { turns, until } from '../support/until.ts';

failOnLeaks();

const MINUTES = 60_000;
const ann = someone();
const startsOf = (compute: ComputeUnderTest, id: string) =>
  compute.engine.calls.filter((name) => name === `start ${id}`).length;
const row = async (compute: ComputeUnderTest, id: string) => {
  const found = await containerById(compute.db, id);
  assert.ok(found);
  return found;
};

describe('a container that cannot be started', () => {
  test('fails at once with the reason when there is no such image', async (t) => {
    const image = `${REGISTRY}/ann/gone:1`;
    const compute = await openCompute(t);
    const socket = await compute.updates(ann);
    const id = await compute.create(ann, { image });
    await compute.reaches(ann, id, 'failed');
    const reason = `The image ${image} cannot be pulled: not found`;
    assert.equal(await compute.reason(id), reason);
    assert.deepEqual(await compute.notices(ann.userId), [`Container stopped: "box": ${reason}.`]);
    await until(() => socket.texts.at(-1)?.includes('"status":"failed"'));
  });

  test('fails when the engine refuses it', async (t) => {
    const compute = await openCompute(t);
    compute.engine.fail('create', new EngineError('refused', 'No space left.'));
    const id = await compute.create(ann);
    await compute.reaches(ann, id, 'failed');
    assert.equal((await compute.reason(id)) ?? '', 'No space left.');
  });

  test('is tried again when the engine is not available for a moment', async (t) => {
    const compute = await openCompute(t);
    compute.engine.fail('create', new EngineError('unavailable', 'busy'));
    const id = await compute.running(ann);
    assert.equal(compute.engine.calls.filter((name) => name === `create ${id}`).length, 2);
  });

  test('fails after ten minutes, with what stood in the way', async (t) => {
    const compute = await openCompute(t);
    compute.engine.fail('ensureImage', new EngineError('unavailable', 'the registry does not answer'), 1000);
    const id = await compute.create(ann);
    await until(() => compute.engine.calls.some((name) => name.startsWith('ensureImage')));
    compute.clock.advance(10 * MINUTES + 1000);
    await compute.reaches(ann, id, 'failed');
    assert.equal((await compute.reason(id)) ?? '', 'the registry does not answer');
  });

  test('waits for an engine that is away as long as that takes, says so, and runs once it is back', async (t) => {
    const compute = await openCompute(t);
    const release = compute.engine.hold('ensureImage');
    const pending = await compute.create(ann);
    await until(() => compute.engine.calls.includes(`inspect ${pending}`));
    const away = new EngineError('unavailable', 'The container engine cannot be reached');
    compute.engine.fail('inspect', away, Infinity);
    compute.engine.fail('ensureImage', away);
    release();
    const waits =
      /^Waiting for the container engine\. The container engine cannot be reached\. The next try is at [\d:]{8} UTC\.$/;
    await until(async () => waits.test((await compute.view(ann, pending)).status_reason ?? ''));
    // More than a start may take, more than once.
    for (let i = 0; i < 2; i++) {
      compute.clock.advance(11 * MINUTES);
      const before = compute.engine.calls.length;
      compute.engine.reconnect();
      await until(() => compute.engine.calls.slice(before).includes(`inspect ${pending}`));
    }
    assert.equal((await compute.view(ann, pending)).status, 'pending');
    compute.engine.fail('inspect', away, 0);
    compute.engine.reconnect();
    assert.equal((await compute.reaches(ann, pending, 'running')).status_reason, undefined);
  });

  test('is not held against it that the database was away, or no process ran', async (t) => {
    const compute = await openCompute(t);
    const asked = () => compute.engine.calls.filter((name) => name.startsWith('ensureImage')).length;
    compute.engine.fail('ensureImage', new EngineError('unavailable', 'the registry does not answer'), 1000);
    const id = await compute.create(ann);
    await until(() => asked() > 0);
    compute.db.failure = new StorageError('unavailable', 'away');
    compute.engine.reconnect();
    const unwritten = 'the status of a container could not be written';
    await until(() => compute.log.lines.some(({ message }) => message === unwritten));
    compute.clock.advance(11 * MINUTES);
    compute.db.failure = undefined;
    const before = asked();
    await until(() => asked() > before);
    await compute.stop();
    compute.clock.advance(11 * MINUTES);
    compute.engine.fail('ensureImage', new EngineError('unavailable', 'the registry does not answer'), 0);
    await compute.start();
    await compute.reaches(ann, id, 'running');
  });

  test('fails after ten minutes when the engine says nothing at all', async (t) => {
    const compute = await openCompute(t);
    const release = compute.engine.hold('ensureImage');
    t.after(release);
    const id = await compute.create(ann);
    await until(() => compute.engine.calls.some((name) => name.startsWith('ensureImage')));
    compute.clock.advance(10 * MINUTES + 1000);
    compute.engine.reconnect();
    await compute.reaches(ann, id, 'failed');
    assert.match((await compute.reason(id)) ?? '', /10 minutes/);
    release();
    await until(() => compute.engine.calls.findLast((call) => call !== 'list') === `inspect ${id}`);
    await turns();
    assert.equal((await compute.view(ann, id)).status, 'failed');
    assert.equal(startsOf(compute, id), 0);
    compute.clock.advance(-10 * MINUTES - 1000);
    await compute.on(startContainer, ann, id);
    await compute.reaches(ann, id, 'running');
  });

  test('may be made for longer than ten minutes, says that it is, and has its ten minutes after that', async (t) => {
    const compute = await openCompute(t);
    const release = compute.engine.hold('create');
    t.after(release);
    const id = await compute.create(ann);
    await until(() => compute.engine.calls.some((name) => name.startsWith('create')));
    compute.clock.advance(25 * MINUTES);
    compute.engine.reconnect();
    await until(async () => (await compute.view(ann, id)).status_reason?.includes('is being made') === true);
    assert.equal((await compute.view(ann, id)).status, 'pending');
    release();
    await compute.reaches(ann, id, 'running');
  });

  test('fails after ten minutes when nothing in it ever answers, and is stopped', async (t) => {
    const compute = await openCompute(t, { engine: { onStart: () => {} }, pace: 1 });
    const id = await compute.create(ann);
    await compute.reaches(ann, id, 'initializing');
    await until(() => compute.engine.calls.includes(`dial ${id}`));
    compute.clock.advance(10 * MINUTES + 1000);
    await compute.reaches(ann, id, 'failed');
    assert.match((await compute.reason(id)) ?? '', /not ready within 10 minutes/);
    compute.engine.reconnect();
    await until(async () => (await compute.engine.inspect(id))?.phase === 'exited');
    assert.equal((await compute.view(ann, id)).status, 'failed');
  });

  test('runs without SSH when it is an image of its own and its workload stands', async (t) => {
    const image = `${REGISTRY}/ann/app:1`;
    const compute = await openCompute(t, { engine: { images: [image], onStart: () => {} } });
    const id = await compute.create(ann, { image });
    await compute.reaches(ann, id, 'initializing');
    await until(() => compute.engine.calls.includes(`dial ${id}`));
    compute.clock.advance(15_000);
    await compute.reaches(ann, id, 'running');
  });

  test('runs without SSH as soon as its workload does, when it is an image that has no SSH server', async (t) => {
    const image = `${REGISTRY}/ann/app:1`;
    const compute = await openCompute(t, { engine: { images: [image], onStart: () => {}, hasSshServer: false } });
    const id = await compute.create(ann, { image });
    // Before the clock says that it has stood for long.
    await compute.reaches(ann, id, 'running');
    assert.equal((await row(compute, id)).statusReason, null);
  });

  test('says what is tried, what came back and when it is tried again, to those who look and to those who list', async (t) => {
    const compute = await openCompute(t);
    compute.engine.fail('ensureImage', new EngineError('unavailable', 'The registry does not answer'), 1000);
    const id = await compute.create(ann);
    const reason = /^The registry does not answer\. The next try is at \d\d:\d\d:\d\d UTC\.$/;
    await until(async () => reason.test((await compute.view(ann, id)).status_reason ?? ''));
    assert.match((await compute.list(ann))[0]?.status_reason ?? '', reason);
    assert.equal((await compute.view(ann, id)).status, 'pending');
    await compute.on(stopContainer, ann, id);
    assert.equal((await compute.view(ann, id)).status_reason, undefined);
  });

  test('says after a defect that there was one and when it is tried again, and not how far its image is', async (t) => {
    let defects = 1;
    const compute = await openCompute(t, {
      wrapEngine: (engine) => ({
        ...engine,
        create: (spec) => (defects-- > 0 ? Promise.reject(new TypeError('a defect')) : engine.create(spec)),
      }),
    });
    const id = await compute.create(ann);
    const reason =
      /^The platform met an error of its own, which its log describes\. The next try is at [\d:]{8} UTC\.$/;
    await until(async () => reason.test((await compute.view(ann, id)).status_reason ?? ''));
    await compute.reaches(ann, id, 'running');
  });

  test('says that it waits for SSH, and whom it refuses meanwhile reads where to look', async (t) => {
    const compute = await openCompute(t, { engine: { onStart: () => {} } });
    const id = await compute.create(ann);
    await until(async () => /SSH port does not answer yet/.test((await compute.view(ann, id)).status_reason ?? ''));
    const refusal = await refused('not_running', compute.logs(ann, id));
    assert.match(
      refusal.message,
      /^The container is initializing: .* Its "status_reason" says what it waits for\. For its log so far, GET the same path without an upgrade\.$/,
    );
  });

  test('is not ready while something else than SSH answers', async (t) => {
    let greeting = 'HTTP/1.1 400 Bad Request\r\n';
    const compute = await openCompute(t, {
      engine: { onStart: (id, engine) => engine.listen(id, 22, (stream) => void stream.write(greeting)) },
    });
    const id = await compute.create(ann);
    await until(() => compute.engine.calls.filter((name) => name === `dial ${id}`).length >= 2);
    assert.equal((await compute.view(ann, id)).status, 'initializing');
    greeting = 'SSH-2.0-dropbear\r\n';
    await compute.reaches(ann, id, 'running');
  });
});

describe('a workload that ends', () => {
  test('is started again: initializing with the reason, then running without', async (t) => {
    const compute = await openCompute(t);
    const id = await compute.running(ann);
    const socket = await compute.updates(ann);
    compute.engine.crash(id, { exitCode: 3 });
    await until(() => socket.texts.length === 3);
    assert.match(socket.texts[1] ?? '', /"initializing"/);
    assert.equal(
      (await compute.notices(ann.userId)).at(-1),
      'Container stopped: "box": restarting: it ended with exit code 3.',
    );
    assert.match(socket.texts[2] ?? '', /"status":"running","external_ip":"10.0.0.2"\}/);
    assert.equal((await row(compute, id)).statusReason, null);
  });

  test('says when memory ran out', async (t) => {
    const compute = await openCompute(t);
    const id = await compute.running(ann);
    const socket = await compute.updates(ann);
    compute.engine.crash(id, { oomKilled: true });
    await until(() => socket.texts.length === 3);
    assert.match((await compute.notices(ann.userId)).at(-1) ?? '', /it ran out of memory/);
  });

  test('was not a crash when it ended before this start was asked for', async (t) => {
    const compute = await openCompute(t);
    const id = await compute.running(ann);
    await compute.on(stopContainer, ann, id);
    await until(async () => (await compute.engine.inspect(id))?.phase === 'exited');
    compute.engine.fail('start', new EngineError('unavailable', 'busy'));
    await compute.on(startContainer, ann, id);
    await compute.reaches(ann, id, 'running');
    assert.equal((await compute.notices(ann.userId)).join().includes('restarting'), false);
  });

  test('has its crashes forgotten once it ran for a minute', async (t) => {
    const compute = await openCompute(t);
    const id = await compute.running(ann);
    // More than may happen in a row, and none of them waits for the pause between two crashes.
    compute.clock.advance(61_000);
    for (let i = 0; i < 7; i++) {
      const before = startsOf(compute, id);
      compute.engine.crash(id);
      await until(() => startsOf(compute, id) > before);
      await compute.reaches(ann, id, 'running');
    }
    assert.equal((await compute.view(ann, id)).status, 'running');
  });

  test('the pause after the second crash in a row is not cut short by more news of it', async (t) => {
    const compute = await openCompute(t);
    const id = await compute.running(ann);
    compute.engine.crash(id);
    await until(() => startsOf(compute, id) === 2);
    await compute.reaches(ann, id, 'running');
    const release = compute.engine.hold('inspect');
    compute.engine.crash(id);
    await until(() => compute.engine.calls.findLast((call) => call !== 'list') === `inspect ${id}`);
    // An engine tells of one end more than once: it was killed, it died, it stopped.
    for (let i = 0; i < 3; i++) compute.engine.tell(id);
    release();
    await compute.reaches(ann, id, 'initializing');
    for (let i = 0; i < 3; i++) compute.engine.tell(id);
    await turns();
    assert.equal(startsOf(compute, id), 2);
    // A new wish is not kept waiting.
    await compute.on(stopContainer, ann, id);
    await compute.on(startContainer, ann, id);
    await compute.reaches(ann, id, 'running', 1500);
  });
});

describe('a container changed behind our back', () => {
  test('removed: it is made again, each time anew', async (t) => {
    const compute = await openCompute(t);
    const id = await compute.running(ann);
    const socket = await compute.updates(ann);
    compute.engine.lose(id);
    await until(() => socket.texts.length === 3);
    assert.match(socket.texts[1] ?? '', /"initializing"/);
    assert.match(socket.texts[2] ?? '', /"running"/);
    compute.engine.lose(id);
    await until(() => socket.texts.length === 5);
    assert.match(socket.texts[3] ?? '', /"initializing"/);
    assert.match(socket.texts[4] ?? '', /"running"/);
    assert.match((await compute.notices(ann.userId)).at(-1) ?? '', /it was removed from outside/);
  });

  test('with its data: it fails and says so, and begins empty only when that is asked for', async (t) => {
    const compute = await openCompute(t);
    const id = await compute.running(ann);
    compute.engine.loseData(id);
    await compute.reaches(ann, id, 'failed');
    assert.match((await compute.view(ann, id)).status_reason ?? '', /^its data at \/root is gone: /);
    assert.match(
      (await compute.notices(ann.userId)).at(-1) ?? '',
      /"box": its data at \/root is gone: .*\?discard=true/,
    );
    await compute.on(startContainer, ann, id);
    await compute.reaches(ann, id, 'failed');
    assert.equal(compute.engine.files(id), undefined);
    await compute.call(startContainer, ann, { params: { id }, query: { discard: 'true' } });
    await compute.reaches(ann, id, 'running');
    // What was made then is its data now.
    compute.engine.loseData(id);
    await compute.reaches(ann, id, 'failed');
  });

  test('restarted with another address: the address is updated, and it ran all the while', async (t) => {
    const compute = await openCompute(t);
    const id = await compute.running(ann);
    const socket = await compute.updates(ann);
    const release = compute.engine.hold('inspect');
    compute.engine.crash(id);
    await compute.engine.start(id, compute.engine.keysOf(id));
    release();
    await until(() => socket.texts.length === 2);
    assert.match(socket.texts[1] ?? '', /"status":"running","external_ip":"10.0.0.2"/);
    assert.equal((await row(compute, id)).address, '10.0.0.2');
  });

  test('stopped when it should run: started; started when it should not run: stopped', async (t) => {
    const compute = await openCompute(t);
    const id = await compute.running(ann);
    await compute.engine.stop(id, 1);
    await until(() => startsOf(compute, id) === 2);
    await compute.reaches(ann, id, 'running');
    await compute.on(stopContainer, ann, id);
    await until(async () => (await compute.engine.inspect(id))?.phase === 'exited');
    await compute.engine.start(id, []);
    await until(async () => (await compute.engine.inspect(id))?.phase === 'exited');
    assert.equal((await compute.view(ann, id)).status, 'stopped');
  });

  test('all events lost: the comparison of all with all repairs it', async (t) => {
    let changed: (id: string | undefined) => void = () => {};
    const compute = await openCompute(t, {
      wrapEngine: (engine) => ({
        ...engine,
        watch: (onChange) => {
          changed = onChange;
          return { close: async () => {} };
        },
      }),
    });
    const id = await compute.running(ann);
    compute.engine.lose(id);
    await turns();
    assert.equal((await compute.view(ann, id)).status, 'running');
    changed(undefined);
    await until(() => startsOf(compute, id) === 2);
    await compute.reaches(ann, id, 'running');
    // And without any word from the engine, the next beat of the watcher's own clock.
    compute.engine.lose(id);
    await until(() => startsOf(compute, id) === 3);
  });

  test('one that the database does not know is left alone, and said once', async (t) => {
    const compute = await openCompute(t);
    const id = newId();
    const { baseImage } = compute.engine;
    await compute.engine.ensureImage(baseImage, { always: false });
    await compute.engine.create({
      ...{ id, userId: newId(), hostname: 'x', image: baseImage, cpus: 1, memoryMb: 128, storageGb: 1 },
      ...{ mountPaths: ['/root'], authorizedKeys: [] },
    });
    await compute.engine.start(id, []);
    const listed = () => compute.engine.calls.filter((name) => name === 'list').length;
    for (let i = 0; i < 3; i++) {
      const before = listed();
      compute.engine.reconnect();
      await until(() => listed() > before);
    }
    await until(() => compute.log.lines.some(({ level }) => level === 'warn'));
    await turns();
    assert.equal(compute.log.lines.filter(({ message }) => message.includes('does not know')).length, 1);
    assert.equal((await compute.engine.inspect(id))?.phase, 'running');
  });

  test('one whose deletion ends between two looks is no stranger', async (t) => {
    const compute = await openCompute(t);
    const id = await compute.running(ann);
    // The list is taken while the container is there; the rows are read when all of it is gone.
    const release = compute.engine.hold('remove');
    await compute.on(deleteContainer, ann, id);
    await until(() => compute.engine.calls.includes(`remove ${id}`));
    const many = compute.db.many.bind(compute.db);
    compute.db.many = async (schema, text, values) => {
      if (text.includes('predecessor_since as "predecessorSince" from containers') && !text.includes('xid8')) {
        release();
        await until(async () => (await compute.db.run('select from containers')) === 0);
      }
      return many(schema, text, values);
    };
    compute.engine.reconnect();
    await until(() => compute.engine.calls.findLast((call) => call !== 'list') === `inspect ${id}`);
    await turns();
    assert.deepEqual(
      compute.log.lines.filter(({ message }) => message.includes('does not know')),
      [],
    );
  });
});

describe('work of a wish that was taken back', () => {
  test('a start that is done after the stop leaves it stopped, and nothing runs', async (t) => {
    const compute = await openCompute(t);
    const release = compute.engine.hold('start');
    const id = await compute.create(ann);
    await until(() => startsOf(compute, id) === 1);
    const socket = await compute.updates(ann);
    await compute.on(stopContainer, ann, id);
    release();
    await until(() => compute.engine.calls.includes(`stop ${id}`));
    await until(async () => (await compute.engine.inspect(id))?.phase === 'exited');
    await turns();
    assert.equal((await compute.view(ann, id)).status, 'stopped');
    assert.equal(socket.texts.filter((text) => text.includes('"running"')).length, 0);
  });

  test('a readiness found after the stop does not make it running', async (t) => {
    const compute = await openCompute(t);
    const release = compute.engine.hold('dial');
    const id = await compute.create(ann);
    await until(() => compute.engine.calls.includes(`dial ${id}`));
    await compute.on(stopContainer, ann, id);
    release();
    await until(() => compute.engine.calls.includes(`stop ${id}`));
    await turns();
    assert.equal((await row(compute, id)).status, 'stopped');
  });

  test('a failure after the stop does not make it failed', async (t) => {
    const compute = await openCompute(t);
    const release = compute.engine.hold('ensureImage');
    compute.engine.fail('ensureImage', new EngineError('image_not_found', 'gone'));
    const id = await compute.create(ann);
    await until(() => compute.engine.calls.some((name) => name.startsWith('ensureImage')));
    await compute.on(stopContainer, ann, id);
    const looks = compute.engine.calls.filter((name) => name === `inspect ${id}`).length;
    release();
    await until(() => compute.engine.calls.filter((name) => name === `inspect ${id}`).length > looks);
    await turns();
    assert.equal((await row(compute, id)).status, 'stopped');
  });

  test('a failure of the start before the last does not fail the last one', async (t) => {
    const compute = await openCompute(t);
    const socket = await compute.updates(ann);
    const release = compute.engine.hold('ensureImage');
    compute.engine.fail('ensureImage', new EngineError('image_not_found', 'gone'));
    const id = await compute.create(ann);
    await until(() => compute.engine.calls.some((name) => name.startsWith('ensureImage')));
    await compute.on(stopContainer, ann, id);
    await compute.on(startContainer, ann, id);
    release();
    await compute.reaches(ann, id, 'running');
    assert.equal(socket.texts.join().includes('"failed"'), false);
  });

  test('a failure found for an actor that has been woken anew meanwhile is not its own', async (t) => {
    const compute = await openCompute(t);
    const socket = await compute.updates(ann);
    const release = compute.engine.hold('ensureImage');
    compute.engine.fail('ensureImage', new EngineError('image_not_found', 'gone'));
    const id = await compute.create(ann);
    const pulls = () => compute.engine.calls.filter((name) => name.startsWith('ensureImage')).length;
    await until(() => pulls() === 1);
    compute.db.failure = new TypeError('a defect');
    await refused('internal', compute.on(stopContainer, ann, id));
    compute.db.failure = undefined;
    await compute.view(ann, id);
    compute.engine.reconnect();
    await until(() => pulls() === 2);
    release();
    await compute.reaches(ann, id, 'running');
    assert.equal(socket.texts.join().includes('"failed"'), false);
  });

  test('a stop that is done after the start ends in running', async (t) => {
    const compute = await openCompute(t);
    const id = await compute.running(ann);
    const release = compute.engine.hold('stop');
    await compute.on(stopContainer, ann, id);
    await until(() => compute.engine.calls.includes(`stop ${id}`));
    await compute.on(startContainer, ann, id);
    release();
    await compute.reaches(ann, id, 'running');
    assert.equal((await compute.engine.inspect(id))?.phase, 'running');
  });

  test('whatever the order of wishes, the last one holds', async (t) => {
    const compute = await openCompute(t);
    const id = await compute.running(ann);
    for (let i = 0; i < 12; i++) {
      await compute.on(i % 2 === 0 ? stopContainer : startContainer, ann, id);
      if (i % 3 === 0) await turns(i);
    }
    await compute.reaches(ann, id, 'running');
    await until(async () => (await compute.engine.inspect(id))?.phase === 'running');
    await compute.on(stopContainer, ann, id);
    await compute.on(deleteContainer, ann, id);
    await until(async () => (await compute.db.run('select from containers')) === 0);
    assert.deepEqual(await compute.engine.list(), []);
  });
});

describe('a service that was stopped and started again', () => {
  test('running ones stay, pending ones go on, deleted ones are finished', async (t) => {
    const compute = await openCompute(t);
    const ssh_key_ids = [await compute.key(ann)];
    const running = await compute.running(ann, { ssh_key_ids });
    const removed = await compute.running(ann, { ssh_key_ids });
    const [releaseRemove, releaseImage] = [compute.engine.hold('remove'), compute.engine.hold('ensureImage')];
    const pending = await compute.create(ann, { ssh_key_ids });
    await until(() => compute.engine.calls.filter((name) => name.startsWith('ensureImage')).length === 3);
    await compute.on(deleteContainer, ann, removed);
    await until(() => compute.engine.calls.includes(`remove ${removed}`));
    await compute.stop();
    // What was under way then never comes about: the process is gone.
    compute.engine.fail('ensureImage', new EngineError('unavailable', 'gone'));
    compute.engine.fail('remove', new EngineError('unavailable', 'gone'));
    releaseRemove();
    releaseImage();
    await turns();
    assert.equal((await row(compute, pending)).status, 'pending');
    const started = (await row(compute, running)).statusSince;
    await compute.start();
    assert.equal((await compute.view(ann, running)).status, 'running');
    await compute.reaches(ann, pending, 'running');
    await until(async () => (await compute.db.run('select from containers')) === 2);
    assert.equal(startsOf(compute, running), 1);
    assert.deepEqual((await row(compute, running)).statusSince, started);
    assert.equal((await compute.engine.list()).length, 2);
  });

  test('one that ended meanwhile is started again', async (t) => {
    const compute = await openCompute(t);
    const id = await compute.running(ann);
    await compute.stop();
    compute.engine.crash(id);
    await compute.start();
    await until(() => startsOf(compute, id) === 2);
    await compute.reaches(ann, id, 'running');
  });

  test('one that stopped between creation and start goes on', async (t) => {
    const compute = await openCompute(t);
    const release = compute.engine.hold('start');
    const id = await compute.create(ann);
    await compute.reaches(ann, id, 'initializing');
    compute.engine.fail('start', new EngineError('unavailable', 'gone'));
    await compute.stop();
    release();
    await compute.start();
    await compute.reaches(ann, id, 'running');
  });
});

describe('while the database is away', () => {
  test('a status that could not be written is written later, and nobody hears of it before', async (t) => {
    const compute = await openCompute(t);
    const id = await compute.running(ann);
    const socket = await compute.updates(ann);
    compute.db.failure = new StorageError('unavailable', 'gone');
    compute.engine.crash(id, { exitCode: 9 });
    await until(() => compute.log.lines.some(({ message }) => message.includes('could not be written')));
    assert.equal(socket.texts.length, 1);
    compute.engine.reconnect();
    await until(() => compute.log.lines.some(({ message }) => message.includes('sweep over all containers failed')));
    compute.db.failure = undefined;
    await until(() => socket.texts.length === 3);
    assert.match(socket.texts[1] ?? '', /"initializing"/);
    assert.match((await compute.notices(ann.userId)).at(-1) ?? '', /exit code 9/);
    assert.match(socket.texts[2] ?? '', /"running"/);
  });

  test('a fault in the middle of work wakes the container anew, and it goes on', async (t) => {
    const compute = await openCompute(t);
    const id = await compute.running(ann);
    const { tx } = compute.db;
    compute.db.tx = () => Promise.reject(new TypeError('a defect'));
    compute.engine.crash(id);
    await until(() => compute.log.lines.some(({ fields }) => JSON.stringify(fields).includes('compute/container')));
    compute.db.tx = tx;
    compute.engine.reconnect();
    await until(() => startsOf(compute, id) === 2);
    await compute.reaches(ann, id, 'running');
  });

  test('a wish that could not be written is refused, and changes nothing', async (t) => {
    const compute = await openCompute(t);
    const id = await compute.running(ann);
    compute.db.failure = new StorageError('unavailable', 'gone');
    await refused('unavailable', compute.on(stopContainer, ann, id));
    compute.db.failure = undefined;
    assert.equal((await compute.view(ann, id)).status, 'running');
    await compute.on(stopContainer, ann, id);
  });
});
