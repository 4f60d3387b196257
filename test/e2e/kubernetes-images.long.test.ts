/** Private images on Kubernetes: the node pulls what the container's user may, and gives nobody else what it has. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { z } from 'zod';
import { pullAuth } from '../../actors/auth/registry/pull-credential.ts';
import { kubernetesEngine } from '../../transports/engines/kubernetes/engine.ts';
import { logIn, request } from '../support/cluster/platform.ts';
import { rejectsWith } from '../support/engine/conformance-suite.ts';
import { silentLog } from '../support/engine/docker-under-test.ts';
import { tinyImageMissing } from '../support/engine/tiny-image.ts';
import { skipWithoutKubernetes } from '../support/kubernetes/programs.ts';
import { passwordOf, registryPlatform } from '../support/kubernetes/registry-platform.ts';
import { testStorageClass } from '../support/kubernetes/volumes.ts';
import { skipWithout } from '../support/require.ts';
import { publicKey } from '../support/ssh/public-key.ts';
import { until } from '../support/until.ts';

const JWT_SECRET = 'the shared secret of this test, long enough';
const view = z.object({ status: z.string(), status_reason: z.string().nullish() });

test('a node pulls the private image of a user for that user alone', {
  skip: tinyImageMissing() ?? (skipWithoutKubernetes() || skipWithout('docker-registry')),
  timeout: 900_000,
}, async (t) => {
  const { cluster, base, database, platform, urls, host, push } = await registryPlatform(t, ['ann', 'bob'], () => ({
    JWT_SECRET,
  }));

  // Ann pushes. What remains of it on the node goes.
  const image = `${host}/ann/app:1`;
  await push(
    base.reference,
    { repository: `${host}/ann/app`, tag: '1' },
    { username: 'ann', password: passwordOf('ann') },
  );

  const token = await logIn(urls.auth, 'ann', passwordOf('ann'));
  const key = await request('POST', `${urls.compute}/compute/ssh-keys`, {
    token,
    body: { name: 'laptop', public_key: publicKey('ann') },
  });
  const made = await request('POST', `${urls.compute}/compute/containers`, {
    token,
    body: { name: 'own', ssh_key_ids: [key.json.id], image },
  });
  assert.equal(made.status, 200, JSON.stringify(made.json));
  const { id } = z.object({ id: z.string() }).parse(made.json);
  let seen = view.parse({ status: '' });
  await until(
    async () => {
      seen = view.parse((await request('GET', `${urls.compute}/compute/containers/${id}`, { token })).json);
      assert.notEqual(seen.status, 'failed', seen.status_reason ?? '');
      return seen.status === 'running';
    },
    { timeoutMs: 120_000, everyMs: 200, what: 'the container runs' },
  );

  // The node has the image now. Others do not get it, with a pass of their own or with none.
  const spec = {
    ...{ userId: 'u2', hostname: 'box', image, cpus: 0.5, memoryMb: 128, storageGb: 1 },
    ...{ mountPaths: ['/root'], authorizedKeys: [] },
  };
  const { id: bob } = await database.db
    .one(z.object({ id: z.string() }), 'select id from users where username = $1', ['bob'])
    .then((found) => found ?? assert.fail('bob is not there'));
  const passes = pullAuth({ db: database.db, clock: { now: Date.now }, jwtSecret: JWT_SECRET }, host);
  const engine = kubernetesEngine({
    ...{ access: { kubeconfig: cluster.kubeconfig }, installation: 'other', baseImage: base.reference, log: silentLog },
    settings: { storageClass: testStorageClass, anyArchitecture: true },
    pullAuth: async ({ image: of }) => passes?.({ userId: bob, image: of }),
  });
  t.after(() => engine.close());
  await engine.create({ ...spec, id: 'b1' });
  await rejectsWith(engine.start('b1', []), 'image_not_found');
  await engine.remove('b1');

  const deleted = await request('DELETE', `${urls.compute}/compute/containers/${id}`, { token });
  assert.equal(deleted.status, 200, JSON.stringify(deleted.json));
  assert.equal(await platform.stop(), 0, platform.log());
  assert.doesNotMatch(platform.log(), /pull_ey/, 'a pass is in the log');
});
