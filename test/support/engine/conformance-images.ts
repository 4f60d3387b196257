import assert from 'node:assert/strict';
import { it } from 'node:test';
import { EngineError } from '../../../proto/ports/engine.ts';
import { keys, rejectsWith, type Suite } from './conformance-suite.ts';

/** What `Engine.ensureImage` promises, and what becomes of a container whose image changes. */
export function imageConformance(suite: () => Suite, hasRegistry: boolean): void {
  it('does nothing for an image that is present, and gives up when told to', async () => {
    const { engine, under } = suite();
    await engine.ensureImage(under.image, { always: false });
    await rejectsWith(
      engine.ensureImage('127.0.0.1:9/no/where:1', { always: true, signal: AbortSignal.abort() }),
      'unavailable',
    );
  });

  it('makes an image present for a container that runs, or says why it cannot, and the container runs on', async () => {
    const { engine, under } = suite();
    const id = await suite().started();
    const before = await engine.inspect(id);
    await engine.ensureImage(under.image, { always: false, forContainer: id });
    if (under.missingImage !== undefined)
      await rejectsWith(engine.ensureImage(under.missingImage, { always: true, forContainer: id }), 'image_not_found');
    const now = await engine.inspect(id);
    assert.deepEqual([now?.phase, now?.startedAt], ['running', before?.startedAt]);
    await engine.stop(id, 1);
    await engine.ensureImage(under.image, { always: false, forContainer: id });
    await engine.remove(id);
  });

  it('gives one that runs other limits where it can, and one that is started anew in any case', async () => {
    const { engine } = suite();
    const spec = suite().spec();
    await engine.create(spec);
    await engine.start(spec.id, keys);
    await suite().answers(spec.id);
    const before = await engine.inspect(spec.id);
    const other = { ...spec, cpus: 0.25, memoryMb: 192, storageGb: 2 };
    await engine.create(other);
    const now = await engine.inspect(spec.id);
    assert.deepEqual([now?.phase, now?.startedAt], ['running', before?.startedAt]);
    const { cpus, memoryMb, storageGb = 2 } = now?.limits ?? {};
    assert.deepEqual([cpus, memoryMb, storageGb], engine.resizesRunning ? [0.25, 192, 2] : [0.5, 128, 2]);
    await engine.stop(spec.id, 1);
    await engine.create(other);
    await engine.start(spec.id, keys);
    await suite().answers(spec.id);
    const { limits } = (await engine.inspect(spec.id)) ?? {};
    assert.deepEqual([limits?.cpus, limits?.memoryMb], [0.25, 192]);
    await engine.remove(spec.id);
  });

  if (!hasRegistry) return;

  it('pulls with the credentials it is given, and passes the registry’s reason on', async () => {
    const { engine, under } = suite();
    const { image, auth } = part(suite());
    await rejectsWith(engine.create(suite().spec({ image })), 'image_not_found');
    for (const wrong of [undefined, async () => undefined, async () => ({ username: 'eve', password: 'x' })]) {
      const pull = engine.ensureImage(image, { always: false, ...(wrong === undefined ? {} : { auth: wrong }) });
      await assert.rejects(pull, (error: unknown) => {
        assert.ok(error instanceof EngineError);
        assert.equal(error.code, 'image_not_found', error.message);
        assert.match(error.message, /unauthorized|authentication|no basic auth/i);
        return true;
      });
    }
    let asked = 0;
    const lines: string[] = [];
    const options = {
      auth: async () => {
        asked += 1;
        return auth;
      },
      onProgress: (line: string) => void lines.push(line),
    };
    await engine.ensureImage(image, { always: false, ...options });
    assert.equal(asked, 1);
    assert.ok(lines.length > 0);
    await engine.ensureImage(image, { always: false, ...options });
    assert.equal(asked, 1, 'asked for credentials without a pull');
    await engine.ensureImage(image, { always: true, ...options });
    assert.equal(asked, 2);
    const missing = image.replace(/:[^:]*$/, ':none');
    await rejectsWith(engine.ensureImage(missing, { always: true, ...options }), 'image_not_found');
    const id = await suite().started({ image });
    await engine.remove(id);
    assert.equal(await under.engine.inspect(id), undefined);
  });

  it('does not give what one may pull to another who asks at the same time', async () => {
    const { engine } = suite();
    const { image, auth } = part(suite());
    const [allowed, other] = await Promise.allSettled([
      engine.ensureImage(image, { always: true, auth: async () => auth }),
      engine.ensureImage(image, { always: true, auth: async () => ({ username: 'eve', password: 'x' }) }),
    ]);
    assert.equal(allowed.status, 'fulfilled');
    assert.equal(other.status, 'rejected');
  });

  it('makes a container anew from another image, with the files at its mount paths and no others', async () => {
    const { engine, under } = suite();
    const { image, auth } = part(suite());
    const spec = suite().spec();
    await engine.create(spec);
    await engine.start(spec.id, keys);
    await suite().answers(spec.id);
    await under.writeFile(spec.id, '/root/data', 'kept');
    await under.writeFile(spec.id, '/tmp/installed', 'here');
    await engine.ensureImage(image, { always: false, auth: async () => auth, forContainer: spec.id });
    await engine.stop(spec.id, 1);
    await engine.create({ ...spec, image });
    // As after a platform that ended in between.
    await (await under.again()).create({ ...spec, image });
    await engine.start(spec.id, keys);
    await suite().answers(spec.id);
    assert.equal(await under.readFile(spec.id, '/root/data'), 'kept');
    assert.equal(await under.readFile(spec.id, '/tmp/installed'), undefined);
    await engine.remove(spec.id);
  });

  it('makes a container anew from another image of the name only when it is to follow it', async () => {
    const { engine, under } = suite();
    const { image, auth, publish } = part(suite());
    const pull = (): Promise<void> => engine.ensureImage(image, { always: true, auth: async () => auth });
    await pull();
    const spec = suite().spec({ image });
    const restart = async (followImage: boolean): Promise<void> => {
      await engine.stop(spec.id, 1);
      await engine.create({ ...spec, followImage });
      await engine.start(spec.id, keys);
      await suite().answers(spec.id);
    };
    await engine.create(spec);
    await engine.start(spec.id, keys);
    await suite().answers(spec.id);
    await under.writeFile(spec.id, '/root/data', 'kept');
    await under.writeFile(spec.id, '/tmp/installed', 'here');
    await restart(true);
    assert.equal(await under.readFile(spec.id, '/tmp/installed'), 'here');
    await publish();
    await pull();
    await restart(false);
    assert.equal(await under.readFile(spec.id, '/tmp/installed'), 'here');
    await restart(true);
    assert.equal(await under.readFile(spec.id, '/tmp/installed'), undefined);
    assert.equal(await under.readFile(spec.id, '/root/data'), 'kept');
    await engine.remove(spec.id);
  });
}

function part(suite: Suite): NonNullable<Suite['under']['registry']> {
  const { registry } = suite.under;
  assert.ok(registry, 'this engine under test has no registry');
  return registry;
}
