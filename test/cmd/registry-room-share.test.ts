/** What one user can have the platform do for their room in its own registry, without a registry that runs. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { RegistryBarrier } from '../../cmd/node/registry/barrier.ts';
import { lookForGarbage } from '../../cmd/node/registry/collect.ts';
import { registryFiles } from '../../cmd/node/registry/files.ts';
import type { ImageStore } from '../../cmd/node/registry/image-store.ts';
import { RegistryQuota } from '../../cmd/node/registry/quota.ts';
import { folderStore } from '../../cmd/node/registry/store.ts';
import { usageOf } from '../../cmd/node/registry/usage.ts';
import { silentLog } from '../support/log.ts';
import { pause } from '../support/pause.ts';
import { tempDir } from '../support/temp.ts';

const NOBODY = undefined;
const ANN = 'Bearer ann';

/** A store in which ann has a manifest without a tag, old enough to go, beside what it is made of. */
async function storeOf(t: TestContext, mentions: number) {
  const files = registryFiles(await tempDir(t));
  const root = join(files.store, 'docker/registry/v2');
  const put = async (text: string, link: string) => {
    const hex = createHash('sha256').update(text).digest('hex');
    await mkdir(join(root, 'blobs/sha256', hex.slice(0, 2), hex), { recursive: true });
    await writeFile(join(root, 'blobs/sha256', hex.slice(0, 2), hex, 'data'), text);
    await mkdir(join(root, 'repositories/ann/app', link, hex), { recursive: true });
    await writeFile(join(root, 'repositories/ann/app', link, hex, 'link'), `sha256:${hex}`);
    return hex;
  };
  const layer = await put('a layer', '_layers/sha256');
  const strange = Array.from({ length: mentions }, (_, i) => createHash('sha256').update(`${i}`).digest('hex'));
  const annotations = { strange: strange.map((hex) => `sha256:${hex}`).join() };
  const text = JSON.stringify({ schemaVersion: 2, layers: [{ digest: `sha256:${layer}` }], annotations });
  const manifest = await put(text, '_manifests/revisions/sha256');
  return { files, layer, manifest, bytes: text.length + 'a layer'.length };
}

function quotaOf(files: ReturnType<typeof registryFiles>, limit = 5, store = folderStore(files)) {
  const barrier = new RegistryBarrier({ host: '127.0.0.1', port: 1 });
  const looks = { now: 0, most: 0, all: 0 };
  const pinned = async () => {
    looks.all += 1;
    looks.now += 1;
    looks.most = Math.max(looks.most, looks.now);
    await pause(20, 'slow peer');
    looks.now -= 1;
    return new Set<string>();
  };
  const mayPush = async (authorization: string | undefined) => authorization === ANN;
  const quota = new RegistryQuota({
    store,
    barrier,
    limit: async () => limit,
    mayPush,
    pinned,
    log: silentLog,
  });
  const ask = async (method: string, path: string, authorization: string | undefined) => {
    const field = (name: string) => (name === 'authorization' ? authorization : undefined);
    const admitted = await quota.admit({ method, target: `/v2/ann/app/${path}`, field });
    if (typeof admitted !== 'string' && 'onOver' in admitted) admitted.onOver?.();
    return admitted;
  };
  return { quota, barrier, looks, ask };
}

test('digests that lead nowhere count nothing', async (t) => {
  const { files, layer, manifest, bytes } = await storeOf(t, 40_000);
  const usage = await usageOf(folderStore(files), 'ann');
  assert.equal(usage.held, bytes);
  assert.deepEqual(usage.blobs, new Set([layer, manifest]));
  const { blobs } = await lookForGarbage(folderStore(files), { now: Date.now() + 60_000, keptMs: 0, owner: 'ann' });
  assert.deepEqual(new Set(blobs.map(({ folder }) => folder.slice(-64))), new Set([layer, manifest]));
});

test('a layer of an image that is removed counts for a day, though others need it longer', async (t) => {
  const { files, layer, manifest, bytes } = await storeOf(t, 0);
  const [now, day] = [Date.now(), 24 * 60 * 60_000];
  assert.equal(
    (await usageOf(folderStore(files), 'ann', now + 2 * day)).held,
    bytes,
    'an image counts for as long as it is there',
  );
  const revisions = join(files.store, 'docker/registry/v2/repositories/ann/app/_manifests/revisions/sha256');
  await rm(join(revisions, manifest, 'link'));
  // Their blobs are there: another user's images are made of them.
  assert.deepEqual((await usageOf(folderStore(files), 'ann', now + day / 2)).blobs, new Set([layer, manifest]));
  assert.equal((await usageOf(folderStore(files), 'ann', now + 2 * day)).held, 0);
});

test('deletions of strangers count nothing anew, and a user is counted once at a time', async (t) => {
  const { files } = await storeOf(t, 0);
  const { quota, looks, ask } = quotaOf(files);
  await quota.usage('ann');
  assert.equal(looks.all, 1);
  await ask('DELETE', 'manifests/one', NOBODY);
  await quota.usage('ann');
  assert.equal(looks.all, 1);
  const told: Promise<unknown>[] = [];
  for (let i = 0; i < 50; i++) {
    await ask('DELETE', 'manifests/one', ANN);
    told.push(quota.usage('ann'));
  }
  await Promise.all(told);
  assert.equal(looks.most, 1);
  assert.ok(looks.all <= 10, `${looks.all} looks`);
});

test('a user without room makes the pushes of others wait for a small part of the time', async (t) => {
  const { files } = await storeOf(t, 0);
  const { barrier, looks, ask } = quotaOf(files);
  // A push that does not end: there is never a moment to collect.
  const leave = barrier.enter();
  const old = Date.now() - 60 * 60_000;
  t.mock.method(Date, 'now', () => old + 2 * 60 * 60_000);
  let closedMs = 0;
  const began = performance.now();
  let last = began;
  const asked: Promise<unknown>[] = [];
  while (performance.now() - began < 5000) {
    await ask('DELETE', 'manifests/one', ANN);
    asked.push(ask('POST', 'blobs/uploads/', ANN));
    await pause(20, 'pace');
    const now = performance.now();
    if (barrier.isClosed) closedMs += now - last;
    last = now;
  }
  await Promise.all(asked);
  assert.ok(closedMs > 1000 && closedMs < 3000, `closed for ${Math.round(closedMs)} of 5000 ms`);
  assert.equal(looks.most, 1);
  if (typeof leave === 'function') leave();
});

test('however many pushes are refused, the store is walked once at a time for a user', async (t) => {
  const { files } = await storeOf(t, 0);
  const walks = { now: 0, most: 0 };
  const { isRemote, view, ...store } = folderStore(files);
  const slow: ImageStore = {
    isRemote,
    ...store,
    view: async (asked) => {
      walks.now += 1;
      walks.most = Math.max(walks.most, walks.now);
      await pause(10, 'slow peer');
      walks.now -= 1;
      return view(asked);
    },
  };
  const { ask } = quotaOf(files, 5, slow);
  const all = await Promise.all(
    Array.from({ length: 300 }, async (_, i) => {
      await pause(i, 'pace');
      await ask('DELETE', 'manifests/one', ANN);
      return ask('POST', 'blobs/uploads/', ANN);
    }),
  );
  assert.ok(walks.most <= 2, `${walks.most} walks`);
  assert.ok(all.every((said) => typeof said === 'string' || 'later' in said));
});

test('manifests without room have 64 MiB, with those that are sent since it was counted', async (t) => {
  const { files } = await storeOf(t, 0);
  const { quota } = quotaOf(files);
  const admit = (length: number | undefined) => {
    const field = (name: string) => (name === 'authorization' ? ANN : length === undefined ? undefined : `${length}`);
    return quota.admit({ method: 'PUT', target: '/v2/ann/app/manifests/one', field });
  };
  const MIB = 2 ** 20;
  for (let i = 0; i < 15; i++) {
    const admitted = await admit(4 * MIB);
    assert.ok(typeof admitted !== 'string', `manifest ${i}`);
  }
  const unsaid = await admit(undefined);
  assert.ok(typeof unsaid !== 'string' && !('later' in unsaid));
  assert.equal(unsaid.onBody?.(3 * MIB), undefined);
  assert.match(String(await admit(4 * MIB)), /The images of ann hold .* Remove images/);
  unsaid.onBody?.(3 * MIB);
  await pause(100, 'watch');
  assert.match(String(unsaid.onBody?.(1)), /The images of ann hold/);
});

test('a user has so many repositories, tags and uploads, with those that are under way', async (t) => {
  const { files } = await storeOf(t, 0);
  const root = join(files.store, 'docker/registry/v2/repositories/ann');
  const fill = async (most: number, folder: (i: number) => string) => {
    for (let i = 0; i < most; i++) await mkdir(join(root, folder(i)), { recursive: true });
  };
  const admitted = async (method: string, target: string) => {
    const field = (name: string) => (name === 'authorization' ? ANN : undefined);
    return quotaOf(files, 1_000_000).quota.admit({ method, target: `/v2/ann/${target}`, field });
  };
  await fill(99, (i) => `app/_uploads/${i}`);
  assert.equal(typeof (await admitted('POST', 'app/blobs/uploads/')), 'object');
  await fill(100, (i) => `app/_uploads/${i}`);
  assert.match(String(await admitted('POST', 'app/blobs/uploads/')), /^ann has 100 uploads under way, .* let some end/);
  await fill(999, (i) => `r${i}/_layers`);
  assert.equal(typeof (await admitted('PUT', 'app/manifests/one')), 'object');
  assert.match(String(await admitted('PUT', 'new/manifests/one')), /^ann has 1,000 repositories, .* push to one of/);
  await fill(10_000, (i) => `app/_manifests/tags/t${i}`);
  assert.equal(typeof (await admitted('PUT', 'app/manifests/t1')), 'object');
  assert.match(String(await admitted('PUT', 'app/manifests/one')), /^ann has 10,000 tags, .*troupe image rm/);
});

test('who may have nothing pushes nothing, and is told who decides that', async (t) => {
  const { files } = await storeOf(t, 0);
  const { ask } = quotaOf(files, 0);
  const word = 'The administrator lets ann push no images: ask for room there.';
  assert.equal(await ask('POST', 'blobs/uploads/', ANN), word);
  assert.deepEqual(await ask('POST', 'blobs/uploads/', NOBODY), {}, 'the registry itself refuses who has no right');
  const admitted = await ask('PUT', 'manifests/1', ANN);
  assert.ok(typeof admitted !== 'string', 'it may take off a tag of what is there');
  await rm(files.store, { recursive: true });
  assert.equal(await ask('PUT', 'manifests/1', ANN).then((said) => typeof said), 'object', 'it is known for a while');
  assert.equal(await quotaOf(files, 0).ask('PUT', 'manifests/1', ANN), word, 'there is no tag to take off');
});
