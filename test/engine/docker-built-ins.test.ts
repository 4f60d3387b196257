/** What the names of built-in images mean on a Docker Engine. The builds here are fakes: an image that is there gets the name. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { z } from 'zod';
import type { ContainerSpec, Engine } from '../../proto/ports/engine.ts';
import { dockerEngine } from '../../transports/engines/docker/engine.ts';
import type { CatalogImage } from '../../transports/engines/docker/image/catalog.ts';
import { namingOf } from '../../transports/engines/docker/naming.ts';
import { rejectsWith } from '../support/engine/conformance-suite.ts';
import { dockerSkip, dockerUnderTest, silentLog } from '../support/engine/docker-under-test.ts';
import { until } from '../support/until.ts';

const config = z.object({ Id: z.string(), Config: z.object({ Image: z.string() }) });

describe('built-in images on Docker', { skip: dockerSkip() }, () => {
  // Of this run: images are shared by all tests on one Docker.
  const hash = process.pid.toString(16).padStart(16, '0');
  const older = process.pid.toString(16).padStart(16, 'a');
  const name = (image: string, of = hash) => `troupe.invalid/${image}:${of}`;
  const builds: string[] = [];
  const tags: string[] = [];
  let under: Awaited<ReturnType<typeof dockerUnderTest>>;
  let engine: Engine;
  let finish = (): void => {};

  const tag = async (to: string): Promise<void> => {
    tags.push(to);
    const [repo, version] = [to.slice(0, to.lastIndexOf(':')), to.slice(to.lastIndexOf(':') + 1)];
    await under.client.call('POST', `/images/${under.image}/tag`, { query: { repo, tag: version } });
  };
  const fake = (image: string, work: () => Promise<void> = async () => {}): CatalogImage => ({
    ...{ name: image, title: image, reference: name(image) },
    build: async (_client, onProgress) => {
      builds.push(image);
      onProgress(`10% making ${image}`);
      await work();
      await tag(name(image));
    },
  });
  const spec = (id: string, image: string): ContainerSpec => ({
    ...{ id, userId: 'u1', hostname: 'box', image, cpus: 1, memoryMb: 128, storageGb: 1 },
    ...{ mountPaths: ['/root'], authorizedKeys: [] },
  });
  const view = (id: string) =>
    under.client.json('GET', `/containers/${namingOf(under.installation).container(id)}/json`, config);

  before(async () => {
    under = await dockerUnderTest();
    await under.engine.ensureImage(under.image, { always: false });
    const base = { reference: under.image, build: () => assert.fail('it is there') };
    const held = new Promise<void>((resolve) => {
      finish = resolve;
    });
    const catalog = [
      fake('one', () => held),
      fake('two'),
      fake('failing', () => Promise.reject(new Error('no space'))),
    ];
    const { host, installation } = under;
    engine = await dockerEngine({ host, installation, log: silentLog, images: { base, catalog } });
  });
  after(async () => {
    await engine?.close();
    for (const image of tags) await under.client.call('DELETE', `/images/${image}`).catch(() => undefined);
    await under?.end();
  });

  it('are built once for all who wait, one after the other, and the builds are told of', async () => {
    assert.equal(await engine.isBuilt(name('one')), false);
    const said: [string[], string[], string[]] = [[], [], []];
    const ask = (image: string, lines: string[]) =>
      engine.ensureImage(image, { always: false, onProgress: (line) => lines.push(line) });
    const first = ask('troupe.invalid/one', said[0]);
    await until(() => said[0].length > 0);
    const others = [ask(name('one', older), said[1]), ask('troupe.invalid/two', said[2])];
    await until(() => said[2].length > 0);
    assert.match(said[2][0] ?? '', /waiting for the build of another image/);
    assert.deepEqual(builds, ['one']);
    finish();
    await Promise.all([first, ...others]);
    assert.deepEqual(builds, ['one', 'two']);
    assert.equal(await engine.isBuilt(name('one')), true);
    await ask(name('one'), said[0]);
    assert.equal(builds.length, 2);
  });

  it('fail with the reason of the build, which the next one who asks tries again', async () => {
    for (let tries = 1; tries <= 2; tries++) {
      await assert.rejects(engine.ensureImage('troupe.invalid/failing', { always: false }), /no space/);
      assert.equal(builds.filter((one) => one === 'failing').length, tries);
    }
    assert.equal(await engine.isBuilt(name('failing')), false);
  });

  it('mean those of today, and a container of an older one goes on with what it has', async () => {
    await engine.ensureImage('troupe.invalid/two', { always: false });
    await tag(name('two', older));
    await engine.create(spec('new', name('two', older)));
    assert.equal((await view('new')).Config.Image, name('two'));
    await engine.remove('new');

    const before = await dockerEngine({
      ...{ host: under.host, installation: under.installation, log: silentLog },
      images: {
        base: { reference: under.image, build: async () => {} },
        catalog: [{ ...fake('two'), reference: name('two', older) }],
      },
    });
    await before.create(spec('older', 'troupe.invalid/two'));
    await before.close();
    const made = await view('older');
    assert.equal(made.Config.Image, name('two', older));
    await engine.create(spec('older', 'troupe.invalid/two'));
    assert.equal((await view('older')).Id, made.Id);
    // Another image is another container.
    await engine.ensureImage('troupe.invalid/one', { always: false });
    await engine.create(spec('older', 'troupe.invalid/one'));
    assert.notEqual((await view('older')).Id, made.Id);
    await engine.remove('older');
  });

  it('that are built no more are those which are here, or nothing, and no registry is asked', async () => {
    const lines: string[] = [];
    const options = { always: true, onProgress: (line: string) => lines.push(line) };
    const gone = () => engine.ensureImage(`troupe.invalid/gone-${process.pid}`, options);
    await rejectsWith(gone(), 'image_not_found');
    await assert.rejects(gone(), /does not build the image gone-/);
    await tag(name(`kept-${process.pid}`, older));
    await engine.ensureImage(`troupe.invalid/kept-${process.pid}`, options);
    await engine.create(spec('kept', `troupe.invalid/kept-${process.pid}`));
    assert.equal((await view('kept')).Config.Image, name(`kept-${process.pid}`, older));
    await engine.remove('kept');
    assert.deepEqual(lines, []);
  });
});
