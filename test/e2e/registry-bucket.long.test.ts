/** The platform's registry with its images in a bucket: the one that `up` runs, and the manifest of deploy/kubernetes. */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { z } from 'zod';
import { registryFiles } from '../../cmd/node/registry/files.ts';
import { addUsers, logIn, type RunningPlatform, request, startPlatform, troupe } from '../support/cluster/platform.ts';
import { testDatabase } from '../support/database/database.ts';
import { skipWithoutDocker, tinyImage } from '../support/engine/docker-client.ts';
import { serveBucket } from '../support/registry/bucket.ts';
import { startRegistryPod } from '../support/registry/pod.ts';
import { plainImage, RegistryClient } from '../support/registry/registry-client.ts';
import { skipWithout } from '../support/require.ts';
import { inReverse } from '../support/suite.ts';
import { tempDir } from '../support/temp.ts';
import { until } from '../support/until.ts';

const HOST = 'registry.cloud.test';
const ANN: readonly [string, string] = ['ann', 'the password of ann'];
const [ACCESS, SECRET] = ['THEACCESSKEY', 'the-canary-of-the-bucket'];

const MIB = 2 ** 20;

/** What a user is told. */
async function usageOf(auth: string, token: string) {
  const { status, json } = await request('GET', `${auth}/api/registry/usage`, { token });
  assert.equal(status, 200, JSON.stringify(json));
  return { used: z.number().parse(json.used_bytes), limit: json.limit_bytes };
}

/** Of 16 MiB that ann may have, one image of 11 has room; the next one when the first lost its name. */
async function refusedAndGivenRoom(auth: string, { client, session }: { client: RegistryClient; session: string }) {
  const [first, second] = ['first', 'second'].map((text) => plainImage([Buffer.alloc(11 * MIB, text)], 'oci'));
  assert.ok(first !== undefined && second !== undefined);
  await client.push('ann/app', first, '1');
  await until(async () => (await usageOf(auth, session)).used > 11 * MIB, { what: 'it is counted' });
  assert.equal((await usageOf(auth, session)).limit, 16 * MIB);
  await assert.rejects(client.push('ann/app', second, '2'), /403.*DENIED.*The images of ann hold .* 16,777,216 bytes/s);
  const removed = await client.ask('DELETE', `/v2/ann/app/manifests/${first.digest}`);
  assert.equal(removed.status, 202);
  await client.push('ann/app', second, '2');
  assert.deepEqual(await client.wrongIn('ann/app', second.digest), []);
  await until(async () => (await usageOf(auth, session)).used < 11.1 * MIB, { what: 'what was given back is told' });
}

test('images are in the bucket of the operator, and are there after a restart on another folder', {
  skip: skipWithoutDocker() || skipWithout('docker-registry'),
  timeout: 900_000,
}, async (t) => {
  const ends: (() => unknown)[] = [];
  t.after(async () => {
    for (const end of ends) await end();
  });
  const cleanup = { after: (end: () => unknown) => void ends.unshift(end) };
  const bucket = await serveBucket(cleanup, 'images', [ACCESS, SECRET]);
  const database = await testDatabase();
  cleanup.after(() => database.close());
  const folder = await tempDir(cleanup);
  const env = {
    ...{ DATABASE_URL: database.url, DEFAULT_IMAGE: await tinyImage(), ADMIN_PASSWORD: 'the admin of this test' },
    ...{
      REGISTRY: 'auto',
      REGISTRY_USER_MB: '16',
      REGISTRY_S3_BUCKET: 'images',
      REGISTRY_S3_ENDPOINT: bucket.endpoint,
    },
    ...{ REGISTRY_S3_ACCESS_KEY: ACCESS, REGISTRY_S3_SECRET_KEY: SECRET },
    ...{ JWT_SECRET: 'the shared secret of this test, long enough', ENCRYPTION_KEY: '55'.repeat(32) },
  };
  const args = ['--domain', 'cloud.test'];
  const refused = await troupe(['up', ...args, '--data', join(folder, 'refused')], {
    env: { ...env, REGISTRY_S3_SECRET_KEY: '' },
  });
  assert.equal(refused.code, 1);
  assert.match(refused.stderr, /REGISTRY_S3_BUCKET, REGISTRY_S3_ACCESS_KEY and REGISTRY_S3_SECRET_KEY go together/);

  const ADMIN: typeof ANN = ['admin', 'the admin of this test'];
  const clientOf = async ({ ready }: RunningPlatform, data: string, who = ADMIN) => {
    const session = await logIn(ready.urls.auth, ...who);
    const scope = encodeURIComponent(`repository:${who[0]}/app:pull,push,delete`);
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
  const usage = await usageOf(platform.ready.urls.auth, first.session);
  assert.equal(usage.limit, null, 'the administrator has no limit');
  assert.ok(usage.used > 11 * MIB && usage.used < 11.1 * MIB, JSON.stringify(usage));
  await addUsers([ANN], one, env);
  const ann = await clientOf(platform, one, ANN);
  cleanup.after(() => ann.client.close());
  await refusedAndGivenRoom(platform.ready.urls.auth, ann);
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

test('the registry of a cluster keeps its images in a bucket, and its front counts them and gives room back', {
  skip: skipWithoutDocker() || skipWithout('docker-registry', 'openssl'),
  timeout: 900_000,
}, async (t) => {
  const cleanup = inReverse(t);
  const bucket = await serveBucket(cleanup, 'images', [ACCESS, SECRET]);
  const database = await testDatabase();
  cleanup.after(() => database.close());
  const folder = await tempDir(cleanup);
  const pod = await startRegistryPod(cleanup, {
    folder,
    domain: 'cloud.test',
    databaseUrl: (await database.serviceRoles()).urlOf('registry'),
    settings: { REGISTRY_USER_MB: '16' },
    // As the guide names them in the secret.
    bucket: {
      ...{ REGISTRY_STORAGE_S3_BUCKET: 'images', REGISTRY_STORAGE_S3_REGION: 'us-east-1' },
      ...{ REGISTRY_STORAGE_S3_ACCESSKEY: ACCESS, REGISTRY_STORAGE_S3_SECRETKEY: SECRET },
      REGISTRY_STORAGE_S3_REGIONENDPOINT: bucket.endpoint,
    },
  });
  const env = {
    ...{ DATABASE_URL: database.url, DEFAULT_IMAGE: await tinyImage(), ADMIN_PASSWORD: 'the admin of this test' },
    ...{ REGISTRY: 'auto', REGISTRY_ADDRESS: pod.address, REGISTRY_SIGNING_KEY: pod.signingKey },
    REGISTRY_FRONT: pod.frontSetting,
  };
  const data = join(folder, 'data');
  const platform = await startPlatform({ data, env, args: ['--domain', 'cloud.test'] });
  cleanup.after(() => platform.stop());
  await addUsers([ANN], data, env);
  const { auth, https } = platform.ready.urls;
  const session = await logIn(auth, ...ANN);
  const scope = encodeURIComponent('repository:ann/app:pull,push,delete');
  const given = await request('GET', `${auth}/api/registry/token?scope=${scope}`, { token: session });
  const client = new RegistryClient({
    port: Number(new URL(https).port),
    host: HOST,
    ca: await readFile(join(data, 'ca.pem'), 'utf8'),
    token: async () => z.string().parse(given.json.token),
  });
  cleanup.after(() => client.close());
  const image = plainImage([Buffer.alloc(11 * 2 ** 20, 'layer')], 'oci');
  await client.push('ann/app', image, '1');
  assert.deepEqual(await client.wrongIn('ann/app', image.digest), [], 'it comes by the registry, not by the bucket');
  assert.ok([...bucket.objects.keys()].some((key) => key.includes('repositories/ann/app/_manifests/tags/1/')));
  assert.ok(!existsSync(pod.store), 'nothing is on the disk');
  const removed = await client.ask('DELETE', `/v2/ann/app/manifests/${image.digest}`);
  assert.equal(removed.status, 202);
  await pod.mayCollect();
  await refusedAndGivenRoom(auth, { client, session });
  const another = await logIn(auth, ...ANN);
  const ended = await request('DELETE', `${auth}/api/settings/sessions`, { token: another });
  assert.ok(ended.status < 300, `${ended.status}`);
  const refused = await client.ask('POST', '/v2/ann/app/blobs/uploads/');
  assert.equal(refused.status, 403);
  assert.match(refused.body.toString(), /DENIED.*no longer valid: it was revoked/);
  assert.deepEqual(bucket.unknown, []);
});
