/** Private images on Kubernetes: the node pulls what the container's user may, and gives nobody else what it has. */

import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { z } from 'zod';
import { pullAuth } from '../../actors/auth/registry/pull-credential.ts';
import { jsonLines } from '../../transports/engines/common/calls.ts';
import { authHeader } from '../../transports/engines/docker/image/images.ts';
import { kubernetesEngine } from '../../transports/engines/kubernetes/engine.ts';
import { logIn, request, startPlatform, troupe } from '../support/cluster/platform.ts';
import { testDatabase } from '../support/database/database.ts';
import { rejectsWith } from '../support/engine/conformance-suite.ts';
import { silentLog } from '../support/engine/docker-under-test.ts';
import { buildTinyImage, tinyImageMissing } from '../support/engine/tiny-image.ts';
import { startRegistry } from '../support/engine/troupe-registry.ts';
import { startCluster } from '../support/kubernetes/cluster.ts';
import { skipWithoutKubernetes } from '../support/kubernetes/programs.ts';
import { provideVolumes, testStorageClass } from '../support/kubernetes/volumes.ts';
import { skipWithout } from '../support/require.ts';
import { publicKey } from '../support/ssh/public-key.ts';
import { freePort, tempDir } from '../support/temp.ts';
import { until } from '../support/until.ts';

const JWT_SECRET = 'the shared secret of this test, long enough';
const ISSUER = 'https://auth.registry.test';
const view = z.object({ status: z.string(), status_reason: z.string().nullish() });
const pushed = z.object({ error: z.string().optional() });

test('a node pulls the private image of a user for that user alone', {
  skip: tinyImageMissing() ?? (skipWithoutKubernetes() || skipWithout('docker-registry')),
  timeout: 580_000,
}, async (t) => {
  const cluster = await startCluster();
  t.after(() => cluster.stop());
  const volumes = provideVolumes(cluster);
  t.after(() => volumes.close());
  const { docker } = cluster;
  assert.ok(docker);
  const base = await buildTinyImage();
  await base.build(docker.client, () => {}, new AbortController().signal);

  const data = await tempDir(t);
  const database = await testDatabase();
  t.after(() => database.close());
  const port = await freePort();
  const keyFile = join(data, 'key.pem');
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  await writeFile(keyFile, privateKey.export({ type: 'pkcs8', format: 'pem' }), { mode: 0o600 });
  const env = {
    ...{ DATABASE_URL: database.url, JWT_SECRET, COMPUTE_ENGINE: 'kubernetes', KUBECONFIG: cluster.kubeconfig },
    ...{ KUBERNETES_STORAGE_CLASS: testStorageClass, KUBERNETES_ARCHITECTURE: 'any', DEFAULT_IMAGE: base.reference },
    ...{ REGISTRY_HOST: `127.0.0.1:${port}`, REGISTRY_ISSUER: ISSUER, REGISTRY_SIGNING_KEY: keyFile },
  };
  const folder = join(data, 'platform');
  const platform = await startPlatform({ data: folder, env });
  t.after(() => platform.kill());
  const { urls } = platform.ready;
  for (const name of ['ann', 'bob'])
    assert.equal((await troupe(['users', 'add', name, '--data', folder], { env, input: `secret of ${name}` })).code, 0);
  const { stdout: bundle } = await troupe(['registry', 'certificate', '--data', folder], { env });
  const registry = await startRegistry(t, {
    ...{ port, service: env.REGISTRY_HOST, issuer: ISSUER, bundle, realm: `${urls.auth}/v2/token` },
  });

  // Ann pushes. What remains of it on the node goes.
  const repository = `${registry.host}/ann/app`;
  const image = `${repository}:1`;
  await docker.client.call('POST', `/images/${base.reference}/tag`, { query: { repo: repository, tag: '1' } });
  const stream = await docker.client.stream('POST', `/images/${repository}/push`, {
    query: { tag: '1' },
    headers: authHeader({ repository, version: '1', full: image }, { username: 'ann', password: 'secret of ann' }),
  });
  for await (const line of jsonLines(stream)) assert.equal(pushed.parse(line).error, undefined);
  await docker.client.call('DELETE', `/images/${image}`);

  const token = await logIn(urls.auth, 'ann', 'secret of ann');
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
  const passes = pullAuth({ db: database.db, clock: { now: Date.now }, jwtSecret: JWT_SECRET }, registry.host);
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
