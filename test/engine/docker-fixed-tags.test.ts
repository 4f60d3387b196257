/** Images that are on a Docker Engine by their digest alone go once nothing names them, and nothing else does. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import type { Engine } from '../../proto/ports/engine.ts';
import { isReply } from '../../transports/engines/docker/api/client.ts';
import { dockerEngine } from '../../transports/engines/docker/engine.ts';
import { dockerSkip, dockerUnderTest, silentLog } from '../support/engine/docker-under-test.ts';

describe('images of revisions on Docker', { skip: dockerSkip() }, () => {
  // Of this run: images are shared by all tests on one Docker.
  const [one, two] = ['a', 'b'].map((letter) => process.pid.toString(16).padStart(64, letter));
  const host = `registry-${process.pid}.test`;
  const repository = `${host}/ann/app`;
  const other = `other-${process.pid}.test/ann/app`;
  const tags = [`${repository}:_sha256-${one}`, `${repository}:_sha256-${two}`, `${repository}:1`].concat(
    `${other}:_sha256-${two}`,
  );
  let under: Awaited<ReturnType<typeof dockerUnderTest>>;
  let engine: Engine;

  const isHere = async (tag: string): Promise<boolean> => {
    try {
      await under.client.call('GET', `/images/${tag}/json`);
      return true;
    } catch (error) {
      if (isReply(error, 404)) return false;
      throw error;
    }
  };

  before(async () => {
    under = await dockerUnderTest();
    await under.engine.ensureImage(under.image, { always: false });
    const base = { reference: under.image, build: () => assert.fail('it is there') };
    const registry = { host, address: '127.0.0.1:1' };
    engine = await dockerEngine({
      ...{ host: under.host, installation: under.installation },
      log: silentLog,
      images: { base },
      registry,
    });
    for (const tag of tags) {
      const at = tag.lastIndexOf(':');
      const query = { repo: tag.slice(0, at), tag: tag.slice(at + 1) };
      await under.client.call('POST', `/images/${under.image}/tag`, { query });
    }
  });

  after(async () => {
    for (const tag of tags) if (await isHere(tag)) await under.client.call('DELETE', `/images/${tag}`);
    await engine.close();
    await under.end();
  });

  it('go when no row names them; named ones, other tags and those of other registries stay', async () => {
    const named = [`${repository}:1@sha256:${one}`, `${repository}:2`, 'troupe.invalid/node'];
    assert.deepEqual(await engine.forgetImages(async () => named), [tags[1]]);
    assert.deepEqual(await Promise.all(tags.map(isHere)), [true, false, true, true]);
    assert.deepEqual(await engine.forgetImages(async () => named), []);
  });

  it('stay where what is named cannot be read', async () => {
    await assert.rejects(engine.forgetImages(() => Promise.reject(new Error('the database is away'))));
    assert.equal(await isHere(tags[0] ?? ''), true);
  });
});
