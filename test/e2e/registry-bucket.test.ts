/** The platform's registry with its images in a bucket: the one that `up` runs, and the manifest of deploy/kubernetes. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { z } from 'zod';
import { registryFiles } from '../../cmd/node/registry/files.ts';
import { logIn, type RunningPlatform, request, startPlatform, troupe } from '../support/cluster/platform.ts';
import { testDatabase } from '../support/database/database.ts';
import { skipWithoutDocker, tinyImage } from '../support/engine/docker-client.ts';
import { manifestsOf } from '../support/kubernetes/manifests.ts';
import { serveBucket } from '../support/registry/bucket.ts';
import { digestOf, plainImage, RegistryClient } from '../support/registry/registry-client.ts';
import { findProgram, skipWithout } from '../support/require.ts';
import { freePort, tempDir } from '../support/temp.ts';
import { until } from '../support/until.ts';

const HOST = 'registry.cloud.test';
const [ACCESS, SECRET] = ['THEACCESSKEY', 'the-canary-of-the-bucket'];

test('images are in the bucket of the operator, and are there after a restart on another folder', {
  skip: skipWithoutDocker() || skipWithout('docker-registry'),
  timeout: 180_000,
}, async (t) => {
  const ends: (() => unknown)[] = [];
  t.after(async () => {
    for (const end of ends) await end();
  });
  const cleanup = { after: (end: () => unknown) => void ends.unshift(end) };
  const bucket = await serveBucket(cleanup, 'images', ACCESS);
  const database = await testDatabase();
  cleanup.after(() => database.close());
  const folder = await tempDir(cleanup);
  const env = {
    ...{ DATABASE_URL: database.url, DEFAULT_IMAGE: await tinyImage(), ADMIN_PASSWORD: 'the admin of this test' },
    ...{ REGISTRY: 'auto', REGISTRY_S3_BUCKET: 'images', REGISTRY_S3_ENDPOINT: bucket.endpoint },
    ...{ REGISTRY_S3_ACCESS_KEY: ACCESS, REGISTRY_S3_SECRET_KEY: SECRET },
    ...{ JWT_SECRET: 'the shared secret of this test, long enough', ENCRYPTION_KEY: '55'.repeat(32) },
  };
  const args = ['--domain', 'cloud.test'];
  const refused = await troupe(['up', ...args, '--data', join(folder, 'refused')], {
    env: { ...env, REGISTRY_S3_SECRET_KEY: '' },
  });
  assert.equal(refused.code, 1);
  assert.match(refused.stderr, /REGISTRY_S3_BUCKET, REGISTRY_S3_ACCESS_KEY and REGISTRY_S3_SECRET_KEY go together/);

  const clientOf = async ({ ready }: RunningPlatform, data: string) => {
    const session = await logIn(ready.urls.auth, 'admin', 'the admin of this test');
    const scope = encodeURIComponent('repository:admin/app:pull,push,delete');
    const token = async () => {
      const given = await request('GET', `${ready.urls.auth}/api/registry/token?scope=${scope}`, { token: session });
      return z.string().parse(given.json.token);
    };
    const ca = await readFile(join(data, 'ca.pem'), 'utf8');
    const port = Number(new URL(ready.urls.https).port);
    const client = new RegistryClient({ port, host: HOST, ca, token });
    return { client, session };
  };
  const [one, two] = [join(folder, 'one'), join(folder, 'two')];
  let platform = await startPlatform({ data: one, env, args });
  cleanup.after(() => platform.stop());
  const first = await clientOf(platform, one);
  cleanup.after(() => first.client.close());
  // One layer is more than Distribution sends at once.
  const image = plainImage([Buffer.alloc(11 * 2 ** 20, 'layer'), Buffer.from('small')], 'docker');
  await first.client.push('admin/app', image, '1');
  const files = registryFiles(one);
  assert.ok(!existsSync(files.store), 'nothing is on the disk');
  assert.ok([...bucket.objects.keys()].some((key) => key.includes('repositories/admin/app/_manifests/tags/1/')));
  assert.equal((await stat(files.config)).mode & 0o077, 0);
  const usage = await request('GET', `${platform.ready.urls.auth}/api/registry/usage`, { token: first.session });
  assert.equal(usage.status, 404, 'nobody counts what is in a bucket');
  assert.ok(!platform.log().includes(SECRET));
  assert.ok(!(await readFile(files.log, 'utf8')).includes(SECRET));

  await platform.stop();
  platform = await startPlatform({ data: two, env, args });
  const second = await clientOf(platform, two);
  cleanup.after(() => second.client.close());
  assert.deepEqual(await second.client.wrongIn('admin/app', image.digest), []);
  assert.equal((await second.client.ask('GET', '/v2/admin/app/manifests/1')).status, 200);
  const gone = await second.client.ask('DELETE', `/v2/admin/app/manifests/${image.digest}`);
  assert.equal(gone.status, 202);
  assert.equal((await second.client.ask('GET', '/v2/admin/app/manifests/1')).status, 404);
  assert.deepEqual(bucket.unknown, []);
});

const workload = z.object({
  spec: z.object({
    template: z.object({
      spec: z.object({
        containers: z.array(z.object({ env: z.array(z.object({ name: z.string(), value: z.string().optional() })) })),
      }),
    }),
  }),
});

test('the manifest for a bucket has Distribution write there', { skip: skipWithout('docker-registry') }, async (t) => {
  const bucket = await serveBucket(t, 'images', ACCESS);
  const folder = await tempDir(t);
  const port = await freePort();
  const objects = manifestsOf('example', ['registry', 'registry-s3']);
  const config = objects.find(({ kind, metadata }) => kind === 'ConfigMap' && metadata.name === 'troupe-registry');
  const text = z.object({ data: z.object({ 'config.yml': z.string() }) }).parse(config).data['config.yml'];
  // Who may push is tried elsewhere.
  await writeFile(join(folder, 'config.yml'), text.slice(0, text.indexOf('auth:')));
  const found = objects.find(({ kind, metadata }) => kind === 'Deployment' && metadata.name === 'troupe-registry');
  const [container] = workload.parse(found).spec.template.spec.containers;
  const given = Object.fromEntries((container?.env ?? []).map(({ name, value }) => [name, value]));
  assert.equal(given.REGISTRY_STORAGE, 's3');
  for (const name of Object.keys(given))
    if (given[name] === undefined || name.startsWith('REGISTRY_AUTH')) delete given[name];
  const child = spawn(findProgram('docker-registry') ?? 'docker-registry', ['serve', join(folder, 'config.yml')], {
    env: {
      ...{ ...given, PATH: process.env.PATH, REGISTRY_HTTP_ADDR: `127.0.0.1:${port}` },
      // As the guide names them in the secret.
      ...{ REGISTRY_STORAGE_S3_BUCKET: 'images', REGISTRY_STORAGE_S3_REGION: 'us-east-1' },
      ...{ REGISTRY_STORAGE_S3_ACCESSKEY: ACCESS, REGISTRY_STORAGE_S3_SECRETKEY: SECRET },
      REGISTRY_STORAGE_S3_REGIONENDPOINT: bucket.endpoint,
    },
    stdio: 'ignore',
  });
  t.after(async () => {
    child.kill('SIGTERM');
    if (child.exitCode === null) await once(child, 'exit');
  });
  const at = `http://127.0.0.1:${port}/v2`;
  const begin = () => fetch(`${at}/ann/app/blobs/uploads/`, { method: 'POST' });
  const location = await until(
    () =>
      begin().then(
        ({ status, headers }) => (status === 202 ? (headers.get('location') ?? '') : undefined),
        () => undefined,
      ),
    { what: 'the registry serves' },
  );
  const content = 'of a manifest for a bucket';
  const upload = new URL(location, at);
  upload.searchParams.set('digest', digestOf(content));
  assert.equal((await fetch(upload, { method: 'PUT', body: content })).status, 201);
  const read = await fetch(`${at}/ann/app/blobs/${digestOf(content)}`, { redirect: 'manual' });
  assert.deepEqual([read.status, await read.text()], [200, content], 'it comes by the registry, not by the bucket');
  const removed = await fetch(`${at}/ann/app/blobs/${digestOf(content)}`, { method: 'DELETE' });
  assert.equal(removed.status, 202);
  assert.deepEqual(bucket.unknown, []);
});
