import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { startContainer, stopContainer } from '../../proto/compute/endpoints.ts';
import type { RegistryAuth } from '../../proto/ports/engine.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { refused, someone } from '../support/service/calls.ts';
import { openCompute, REGISTRY } from '../support/service/compute.ts';
import { until } from '../support/until.ts';

failOnLeaks();

const ann = someone();
const image = `${REGISTRY}/ann/app:1`;
const token = (auth: RegistryAuth | undefined) =>
  auth !== undefined && 'registryToken' in auth ? auth.registryToken : '';

describe('a container of an image of its user', () => {
  test('is pulled with credentials made for the user and the image', async (t) => {
    const asked: object[] = [];
    const compute = await openCompute(t, {
      engine: { images: [image], mayPull: (_image, auth) => token(auth) === 'good' },
      registryAuth: async (pull) => {
        asked.push(pull);
        return { registryToken: 'good' };
      },
    });
    await compute.running(ann, { image });
    assert.deepEqual(asked, [{ userId: ann.userId, image }]);
    await compute.running(ann);
    assert.equal(asked.length, 1, 'shown to somebody who is not the registry');
  });

  test('fails with the reason of the registry that refuses', async (t) => {
    const compute = await openCompute(t, { engine: { images: [image], mayPull: () => false } });
    const id = await compute.create(ann, { image });
    assert.match((await compute.reaches(ann, id, 'failed')).status_reason ?? '', /cannot be pulled: unauthorized$/);
  });

  test('that cannot be is refused in a whole sentence', async (t) => {
    const compute = await openCompute(t);
    const none = await refused('invalid_request', compute.create(ann, { image: `${REGISTRY}/bob/app:1` }));
    assert.match(none.message, /^The request body is not valid: "image" must be in your own repositories .*\.$/);
    const key = await refused('invalid_request', compute.create(ann, { ssh_key_ids: [99] }));
    assert.equal(key.message, 'The request body is not valid, at "ssh_key_ids": you have no SSH key 99.');
  });

  test('says how far its image is while it waits for it', async (t) => {
    const compute = await openCompute(t, { engine: { images: [image] } });
    const release = compute.engine.hold('create');
    const id = await compute.create(ann, { image });
    await until(async () => (await compute.view(ann, id)).status_reason === `${image} is present`);
    assert.equal((await compute.view(ann, id)).status, 'pending');
    release();
    assert.equal((await compute.reaches(ann, id, 'running')).status_reason, undefined);
  });

  test('follows its image with the policy Always, at every start, and only then', async (t) => {
    const compute = await openCompute(t, { engine: { images: [image] } });
    const pulls = () => compute.engine.calls.filter((name) => name === `ensureImage ${image}`).length;
    for (const [pull_policy, isAnew] of [
      ['Always', true],
      ['IfNotPresent', false],
    ] as const) {
      const id = await compute.running(ann, { image, pull_policy });
      const before = pulls();
      compute.engine.files(id)?.set('/opt/installed', 'x');
      await compute.on(stopContainer, ann, id);
      await until(async () => (await compute.engine.inspect(id))?.phase === 'exited');
      compute.engine.publish(image);
      await compute.on(startContainer, ann, id);
      await compute.reaches(ann, id, 'running');
      assert.equal(pulls(), before + 1);
      assert.equal(compute.engine.files(id)?.has('/opt/installed'), !isAnew, pull_policy);
    }
  });
});
