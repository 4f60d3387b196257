/** Room and collection of a registry whose images are in a bucket: the real docker-registry, and the front before it. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { type TestContext, test } from 'node:test';
import { AwsV4Signer } from 'aws4fetch';
import { Registry } from 'prom-client';
import { z } from 'zod';
import { certificateBundle } from '../../actors/auth/registry/registry-key.ts';
import { registryTokens } from '../../actors/auth/registry/registry-tokens.ts';
import { S3Bucket } from '../../cmd/node/registry/bucket/s3.ts';
import { BucketStore } from '../../cmd/node/registry/bucket/store.ts';
import { collectGarbage } from '../../cmd/node/registry/collect.ts';
import { registryFiles, registryKeyOf, writeRegistryFiles } from '../../cmd/node/registry/files.ts';
import { openFront } from '../../cmd/node/registry/front/front.ts';
import { askFront } from '../../cmd/node/registry/front/questions.ts';
import { endRegistry, startRegistry } from '../../cmd/node/registry/process.ts';
import { bundledKeys } from '../../cmd/node/registry/token-keys.ts';
import { usageOf } from '../../cmd/node/registry/usage.ts';
import { type KeptLog, keptLog } from '../support/log.ts';
import { serveBucket } from '../support/registry/bucket.ts';
import { portBefore } from '../support/registry/listening-front.ts';
import { digestOf, plainImage, type TrialImage } from '../support/registry/registry-client.ts';
import { skipWithout } from '../support/require.ts';
import { inReverse } from '../support/suite.ts';
import { freePort, tempDir } from '../support/temp.ts';
import { until } from '../support/until.ts';

const HOST = 'registry.cloud.test';
const ISSUER = 'troupe';
const SECRET = 'the secret of the bucket';
const MIB = 2 ** 20;
const HOUR = 3_600_000;
const options = { skip: skipWithout('docker-registry'), timeout: 900_000 };
const NEVER = { everyMs: HOUR, quietMs: Number.POSITIVE_INFINITY, quietHour: 25, patienceMs: 1, lookMs: HOUR };

/** A registry on a bucket behind a front, which collects nothing by itself. `mb`: what a user may have. */
async function open(context: TestContext, mb: number, pinned = new Set<string>()) {
  const t = inReverse(context);
  // A few objects in each answer: there are always more pages.
  const served = await serveBucket(t, 'images', ['ACCESS', SECRET], 7);
  const keys = { accessKey: 'ACCESS', secretKey: SECRET };
  const bucket = { name: 'images', region: 'us-east-1', endpoint: served.endpoint, ...keys };
  const files = registryFiles(await tempDir(t));
  const { key, secret } = await registryKeyOf(files);
  const port = await freePort();
  writeRegistryFiles(files, key, { port, host: HOST, issuer: ISSUER, secret, bucket });
  await startRegistry(files, port);
  t.after(async () => void (await endRegistry(files)));
  const log = keptLog();
  const front = openFront({
    environment: { REGISTRY_USER_MB: mb, ADMIN_USERNAME: 'admin', REGISTRY_ISSUER: ISSUER, METRICS_TOKEN: undefined },
    host: HOST,
    address: { host: '127.0.0.1', port },
    keys: bundledKeys(certificateBundle(key)),
    store: undefined,
    bucket,
    pinned: async () => pinned,
    holds: async () => true,
    limitMb: async () => null,
    metrics: new Registry(),
    log,
    times: NEVER,
  });
  const outside = await portBefore(t, front);
  const issue = registryTokens({ clock: { now: Date.now }, issuer: ISSUER, signer: key, jwtSecret: 'x'.repeat(32) });
  const actions = ['pull', 'push', 'delete'] as const;
  const access = ['ann/app', 'bob/app'].map((name) => ({ type: 'repository' as const, name, actions: [...actions] }));
  const { token } = await issue({ subject: 'ann', service: HOST, access });
  const headers = { authorization: `Bearer ${token}` };
  const address = `127.0.0.1:${outside}`;
  const urlOf = (path: string, name = 'ann/app') => new URL(`http://${address}/v2/${name}/${path}`);
  const ask = async (method: string, url: URL, body?: Buffer | string, type = 'application/octet-stream') => {
    const sent = { method, headers: { ...headers, 'content-type': type }, ...(body === undefined ? {} : { body }) };
    const response = await fetch(url, sent);
    return { status: response.status, text: await response.text(), location: response.headers.get('location') ?? '' };
  };
  const begin = async (name?: string) => {
    const begun = await ask('POST', urlOf('blobs/uploads/', name));
    assert.equal(begun.status, 202, begun.text);
    return new URL(begun.location, `http://${address}`);
  };
  /** Resolves with what refused it. */
  const push = async ({ blobs, text, type }: TrialImage, tag: string, name?: string): Promise<string | undefined> => {
    for (const blob of blobs) {
      const begun = await ask('POST', urlOf('blobs/uploads/', name));
      if (begun.status !== 202) return begun.text;
      const whole = new URL(begun.location, `http://${address}`);
      whole.searchParams.set('digest', digestOf(blob));
      const put = await ask('PUT', whole, blob);
      if (put.status !== 201) return put.text;
    }
    const put = await ask('PUT', urlOf(`manifests/${tag}`, name), text, type);
    return put.status === 201 ? undefined : put.text;
  };
  const isThere = async (image: TrialImage, name?: string) =>
    (await fetch(urlOf(`manifests/${image.digest}`, name), { headers: { ...headers, accept: image.type } })).status;
  const { usage } = askFront({ address, host: HOST, key, log });
  return { served, bucket, front, log: () => said(log), ask, urlOf, begin, push, isThere, usage };
}

const said = ({ lines }: KeptLog): string =>
  lines.map(({ message, fields }) => `${message} ${JSON.stringify(fields)} ${String(fields.err ?? '')}`).join('\n');

test('an answer of a bucket that does not end is not read to its end', async (t) => {
  const server = createServer((_, response) => {
    // In a turn of the event loop each: Node calls back at once for a connection that has broken, before it says so.
    const more = () => void (response.destroyed || response.write(Buffer.alloc(MIB), () => setImmediate(more)));
    more();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => void server.close());
  const { port } = z.object({ port: z.number() }).parse(server.address());
  const endpoint = `http://127.0.0.1:${port}`;
  const bucket = new S3Bucket({ name: 'b', region: 'us-east-1', endpoint, accessKey: 'a', secretKey: 's' });
  await assert.rejects(bucket.get('one'), { name: 'StoreAway', message: /GET with more than 8388608 bytes/ });
});

test('uploads and parts are counted whole, however many pages of them there are', async (context) => {
  const t = inReverse(context);
  const { endpoint } = await serveBucket(t, 'images', ['ACCESS', SECRET], 7);
  const keys = { accessKey: 'ACCESS', secretKey: SECRET };
  const bucket = new S3Bucket({ name: 'images', region: 'us-east-1', endpoint, ...keys });
  const ask = async (method: string, path: string, body?: string) => {
    const given = { accessKeyId: keys.accessKey, secretAccessKey: keys.secretKey, service: 's3', region: 'us-east-1' };
    const url = `${endpoint}/images/${path}`;
    const signer = new AwsV4Signer({ method, url, ...given, ...(body === undefined ? {} : { body }) });
    const signed = await signer.sign();
    const response = await fetch(signed.url, {
      method,
      headers: signed.headers,
      ...(body === undefined ? {} : { body }),
    });
    assert.equal(response.status, 200);
    return response.text();
  };
  for (let i = 0; i < 20; i += 1) await ask('POST', `some/${i % 3}?uploads=`);
  const uploads = await bucket.uploads('some/');
  assert.equal(new Set(uploads.map(({ id }) => id)).size, 20);
  const [upload] = uploads;
  assert.ok(upload);
  for (let part = 1; part <= 15; part += 1)
    await ask('PUT', `${upload.key}?partNumber=${part}&uploadId=${upload.id}`, '1234');
  assert.equal((await bucket.parts(upload)).bytes, 60);
  assert.equal((await bucket.parts({ ...upload, id: 'ended' })).bytes, 0);
});

const imageOf = (mib: number) => plainImage([randomBytes(mib * MIB)], 'oci');

test('a push past the limit is refused with a sentence, and what lost its name makes room', options, async (t) => {
  const { served, front, ask, urlOf, push, isThere, usage, begin } = await open(t, 16);
  // What a front before it let in may go on for so long.
  await until(() => front.barrier.quietMs > 0, { what: 'it may collect', timeoutMs: 60_000 });
  const [first, second] = [imageOf(10), imageOf(10)];
  assert.equal(await push(first, '1'), undefined);
  const { used, limit } = await usage('ann');
  assert.ok(used >= 10 * MIB && used < 10.1 * MIB, `${used}`);
  assert.equal(limit, 16 * MIB);
  assert.match(
    (await push(second, '2')) ?? '',
    /DENIED.*The images of ann hold [0-9,]+ of 16,777,216 bytes.*`troupe image rm/s,
  );
  // Others have their own room, and the part that they push as well is theirs, too.
  assert.equal(await push(imageOf(10), '1', 'bob/app'), undefined);
  assert.equal((await ask('DELETE', urlOf(`manifests/${first.digest}`))).status, 202);
  assert.equal(await push(second, '2'), undefined);
  assert.equal(await isThere(second), 200);
  const [, layer = Buffer.alloc(0)] = first.blobs;
  const gone = `docker/registry/v2/blobs/sha256/${digestOf(layer).slice(7, 9)}/${digestOf(layer).slice(7)}/data`;
  assert.equal(served.objects.has(gone), false, 'what lost its name is collected');
  // An upload that is not finished counts, and goes when nobody goes on with it and its user needs the room.
  const upload = await begin();
  assert.equal((await ask('PATCH', upload, randomBytes(5 * MIB))).status, 202);
  await until(async () => (await usage('ann')).used > 15 * MIB, { what: 'the upload is counted', timeoutMs: 60_000 });
  assert.match((await push(imageOf(4), '3')) ?? '', /DENIED/);
  served.age(11 * 60_000);
  assert.equal((await ask('DELETE', urlOf('manifests/sha256:'.padEnd(81, '0')))).status, 404);
  assert.equal(await push(imageOf(4), '3'), undefined);
  assert.deepEqual(served.begun(), []);
  assert.deepEqual(served.unknown, []);
});

test(
  'a collection takes what has no name, and leaves tags, pins, what is young, and a store that is whole',
  options,
  async (t) => {
    const pins = new Set<string>();
    const { served, bucket, front, push, isThere, begin, ask, urlOf } = await open(t, 0, pins);
    const [former, pinned, tagged, young] = [imageOf(1), imageOf(1), imageOf(1), imageOf(1)];
    for (const image of [former, pinned, tagged]) assert.equal(await push(image, '1'), undefined);
    pins.add(`ann/app@${pinned.digest.slice(7)}`);
    const lost = await begin('bob/app');
    assert.equal((await ask('PATCH', lost, randomBytes(MIB))).status, 202);
    served.age(25 * HOUR);
    assert.equal(await push(young, 'young'), undefined);
    assert.equal((await ask('DELETE', urlOf(`manifests/${young.digest}`))).status, 202);
    const store = new BucketStore(bucket);
    const signal = AbortSignal.timeout(60_000);
    const collect = () => collectGarbage(store, { now: Date.now(), pinned: async () => pins, signal });
    let held: Promise<string | undefined> | undefined;
    const collected = await front.barrier.closedFor(10_000, async () => {
      held = push(imageOf(1), 'held', 'bob/app');
      await until(() => front.barrier.held > 0, { what: 'the push waits' });
      return collect();
    });
    assert.ok(collected);
    assert.deepEqual([collected.manifests, collected.blobs, collected.uploads], [1, 3, 1]);
    assert.ok(collected.bytes > MIB && collected.bytes < 1.1 * MIB, `${collected.bytes}`);
    assert.equal(await held?.catch(String), undefined);
    assert.deepEqual(await Promise.all([former, pinned, tagged].map((image) => isThere(image))), [404, 200, 200]);
    assert.deepEqual(served.begun(), []);
    const blobs = [...served.objects.keys()].filter((key) => key.includes('/blobs/'));
    for (const blob of [...young.blobs, ...pinned.blobs, ...tagged.blobs])
      assert.ok(blobs.some((key) => key.includes(digestOf(blob).slice(7))));
    const again = await collect();
    assert.deepEqual([again.manifests, again.blobs, again.uploads], [0, 0, 0]);
    assert.deepEqual(served.unknown, []);
  },
);

test('a bucket that is away refuses nothing for want of room, and the log says so', options, async (t) => {
  const { served, bucket, push, usage, log, ask, urlOf } = await open(t, 1);
  served.away(true);
  // The registry itself has no bucket either.
  const refused = await ask('POST', urlOf('blobs/uploads/'));
  assert.ok(refused.status >= 500, `${refused.status} ${refused.text}`);
  assert.match(log(), /the bucket does not tell what a user has: no push is refused for it/);
  await assert.rejects(usage('ann'), /does not answer now/);
  await assert.rejects(collectGarbage(new BucketStore(bucket), { now: Date.now() }), /answers GET with 503 SlowDown/);
  served.away(false);
  assert.match((await push(imageOf(2), '1')) ?? '', /DENIED.*The images of ann hold/s);
  const stranger = new BucketStore({ ...bucket, secretKey: 'another' });
  await assert.rejects(usageOf(stranger, 'ann'), /answers GET with 403 SignatureDoesNotMatch/);
  assert.ok(!log().includes(SECRET));
});

test('who has more names than can be counted pushes nothing, and may delete', options, async (t) => {
  const { served, push, usage, ask, urlOf } = await open(t, 1000);
  const image = imageOf(1);
  assert.equal(await push(image, '1', 'bob/app'), undefined);
  // A hundred pages, of seven names here.
  for (let i = 0; i <= 700; i += 1) served.put(`docker/registry/v2/repositories/ann/app/_manifests/tags/t${i}/x`, '');
  const word = /The repositories of ann have more tags and parts than can be counted. Remove whole images with `skopeo/;
  assert.match((await push(imageOf(1), '1')) ?? '', word);
  assert.match((await ask('PUT', urlOf('manifests/1'), image.text, image.type)).text, word);
  await assert.rejects(usage('ann'), /does not answer now/);
  assert.equal((await ask('DELETE', urlOf(`manifests/${image.digest}`))).status, 404);
  assert.equal(await push(imageOf(1), '2', 'bob/app'), undefined, 'others go on');
});

test('what a push, a collection and a look cost in requests', options, async (t) => {
  const { served, bucket, push } = await open(t, 1000);
  const sum = () => [...served.asked.values()].reduce((all, count) => all + count, 0);
  const cost = async (work: () => Promise<unknown>) => {
    const before = sum();
    await work();
    return sum() - before;
  };
  const first = await cost(() => push(imageOf(1), '1'));
  const more = await cost(async () => {
    for (let i = 2; i < 8; i += 1) assert.equal(await push(imageOf(1), `${i}`), undefined);
  });
  assert.equal(first, 1, 'it is listed what the user has');
  assert.equal(more, 0, 'a push that follows asks nothing');
  const store = new BucketStore(bucket);
  const anew = await cost(() => usageOf(store, 'ann'));
  const again = await cost(() => usageOf(store, 'ann'));
  // 7 images: 3 parts each with the manifest, of which the manifest is read; 35 names in pages of 7.
  assert.deepEqual([anew, again], [7 * 3 + 7 + 5, 5]);
  const collected = await cost(() => collectGarbage(store, { now: Date.now() }));
  const next = await cost(() => collectGarbage(store, { now: Date.now() }));
  t.diagnostic(`a collection: ${collected} requests, the next: ${next}`);
  assert.ok(next < collected);
});
