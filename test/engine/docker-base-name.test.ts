/** The name of the built-in base image: nobody outside can put another in its place, and what has its former name goes on. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { z } from 'zod';
import { builtInName } from '../../proto/built-in-images.ts';
import type { ContainerSpec } from '../../proto/ports/engine.ts';
import { dockerEngine } from '../../transports/engines/docker/engine.ts';
import { namingOf } from '../../transports/engines/docker/naming.ts';
import { dockerSkip, dockerUnderTest, silentLog } from '../support/engine/docker-under-test.ts';

it('is known by any of its names, and no other image is taken for it', () => {
  const hash = '0123456789abcdef';
  for (const name of [`troupe.invalid/base:${hash}`, `troupe/base:${hash}`, `docker.io/troupe/base:${hash}`])
    assert.equal(builtInName(name), 'base', name);
  assert.equal(builtInName(`troupe.invalid/postgres-15:${hash}`), 'postgres-15');
  assert.equal(builtInName('troupe.invalid/node'), 'node');
  for (const name of [
    ...['troupe/base:1', 'troupe/base', `troupe/base:${hash}0`, `x/troupe/base:${hash}`, `troupe/other:${hash}`],
    ...[`registry.example.com/troupe/base:${hash}`, `troupe/base@sha256:${hash}`, `troupexinvalid/base:${hash}`],
    ...['troupe.invalid/helper:1', 'node', 'troupe.invalid/x/node', `troupe.invalid/node@sha256:${hash}`],
  ])
    assert.equal(builtInName(name), undefined, name);
});

describe('the built-in base image', { skip: dockerSkip() }, () => {
  // Of this run: images are shared by all tests on one Docker.
  const hash = process.pid.toString(16).padStart(16, '0');
  const [name, former] = [`troupe.invalid/base:${hash}`, `docker.io/troupe/base:${hash}`];
  const gone = `troupe/base:${'f'.repeat(16)}`;
  let under: Awaited<ReturnType<typeof dockerUnderTest>>;
  const tag = (from: string, to: string) =>
    under.client.call('POST', `/images/${from}/tag`, {
      query: { repo: to.slice(0, to.lastIndexOf(':')), tag: to.slice(to.lastIndexOf(':') + 1) },
    });
  before(async () => {
    under = await dockerUnderTest();
    await under.engine.ensureImage(under.image, { always: false });
    await tag(under.image, former);
  });
  after(async () => {
    for (const one of [name, former]) await under?.client.call('DELETE', `/images/${one}`).catch(() => undefined);
    await under?.end();
  });

  const spec = (id: string, image: string): ContainerSpec => ({
    ...{ id, userId: 'u1', hostname: 'box', image, cpus: 1, memoryMb: 128, storageGb: 1 },
    ...{ mountPaths: ['/root'], authorizedKeys: [] },
  });

  it('is taken over from its former name, by which containers go on and rows mean the same', async () => {
    const { client, installation, host } = under;
    const view = (id: string) =>
      client.json('GET', `/containers/${namingOf(installation).container(id)}/json`, z.object({ Id: z.string() }));
    const options = { host, installation, log: silentLog };
    const digests = z.object({ RepoDigests: z.array(z.string()).nullish() });
    const { RepoDigests } = await client.json('GET', `/images/${former}/json`, digests);
    // Where containerd keeps images, each has a digest: which is a registry's is not known, and it is built anew.
    const build = RepoDigests?.length
      ? async () => void (await tag(under.image, name))
      : () => assert.fail('it is here');
    const before = await dockerEngine({ ...options, images: { base: { reference: former, build } } });
    await before.create(spec('older', former));
    await before.close();

    const engine = await dockerEngine({ ...options, images: { base: { reference: name, former, build } } });
    try {
      await engine.ensureImage(name, { always: false });
      const { Id } = await view('older');
      await engine.create(spec('older', name));
      assert.equal((await view('older')).Id, Id);
      // Of another recipe, and not here: no registry is asked for it.
      const asked: string[] = [];
      await engine.ensureImage(gone, { always: true, onProgress: (line) => asked.push(line) });
      assert.deepEqual(asked, []);
      await engine.create(spec('named', gone));
      const made = z.object({ Config: z.object({ Image: z.string() }) });
      const path = `/containers/${namingOf(installation).container('named')}/json`;
      assert.equal((await client.json('GET', path, made)).Config.Image, name);
    } finally {
      for (const id of ['older', 'named']) await engine.remove(id);
      await engine.close();
    }
  });
});
