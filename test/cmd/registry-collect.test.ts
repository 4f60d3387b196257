/** The collection of images without a name: what it reads, keeps and removes, and where it may be cut, on a store of files. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, statSync } from 'node:fs';
import { mkdir, open, rename, rm, utimes, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { collectGarbage } from '../../cmd/node/registry/collect.ts';
import { registryFiles } from '../../cmd/node/registry/files.ts';
import { folderStore } from '../../cmd/node/registry/store.ts';
import { tempDir } from '../support/temp.ts';

const MANIFEST = '{"schemaVersion":2}';
const HEX = createHash('sha256').update(MANIFEST).digest('hex');
const UNNAMED = 'f'.repeat(64);
const DAY_MS = 24 * 3_600_000;

/** A store with these repositories: each has one manifest with a tag, the same in all, and an old one without. */
async function storeOf(t: TestContext, repositories: readonly string[]) {
  const folder = await tempDir(t);
  const files = registryFiles(folder);
  const root = join(files.store, 'docker/registry/v2');
  const old = new Date(Date.now() - 2 * 24 * 3_600_000);
  const unnamed = repositories.map((name) => join(root, 'repositories', name, '_manifests/revisions/sha256', UNNAMED));
  for (const [i, name] of repositories.entries()) {
    const tag = join(root, 'repositories', name, '_manifests/tags/1/current');
    await mkdir(tag, { recursive: true });
    await writeFile(join(tag, 'link'), `sha256:${HEX}`);
    const revision = unnamed[i] ?? '';
    await mkdir(revision, { recursive: true });
    await writeFile(join(revision, 'link'), `sha256:${UNNAMED}`);
    await utimes(join(revision, 'link'), old, old);
  }
  const blob = join(root, 'blobs/sha256', HEX.slice(0, 2), HEX);
  await mkdir(blob, { recursive: true });
  return { files, manifest: join(blob, 'data'), unnamed };
}

test('a manifest that several repositories have is read once', { timeout: 60_000 }, async (t) => {
  const { files, manifest, unnamed } = await storeOf(t, ['ann/a', 'ann/b', 'bob/c']);
  execFileSync('mkfifo', [manifest]);
  const collected = collectGarbage(folderStore(files), { now: Date.now() });
  // Opens as soon as it is read for the first time. Who reads again finds what is no manifest.
  const pipe = await open(manifest, 'w');
  await rename(manifest, `${manifest}.read`);
  await writeFile(manifest, 'no manifest');
  await pipe.writeFile(MANIFEST);
  await pipe.close();
  assert.equal((await collected).manifests, 3);
  assert.deepEqual(unnamed.map(existsSync), [false, false, false]);
});

test('when the time ends while repositories are looked at, nothing is collected', { timeout: 60_000 }, async (t) => {
  const { files, manifest, unnamed } = await storeOf(t, ['ann/a', 'ann/b', 'bob/c']);
  execFileSync('mkfifo', [manifest]);
  const time = new AbortController();
  const collected = collectGarbage(folderStore(files), { now: Date.now(), signal: time.signal });
  const refused = assert.rejects(collected, /took too long: nothing was collected/);
  const pipe = await open(manifest, 'w');
  time.abort();
  await pipe.writeFile(MANIFEST);
  await pipe.close();
  await refused;
  assert.deepEqual(unnamed.map(existsSync), [true, true, true]);
});

/** A store in which everything is two days old. */
async function oldStore(t: TestContext) {
  const files = registryFiles(await tempDir(t));
  const root = join(files.store, 'docker/registry/v2');
  const put = async (path: string, text: string, ageMs = 2 * DAY_MS) => {
    await mkdir(dirname(join(root, path)), { recursive: true });
    await writeFile(join(root, path), text);
    const at = new Date(Date.now() - ageMs);
    await utimes(join(root, path), at, at);
    await utimes(dirname(join(root, path)), at, at);
  };
  const hexOf = (text: string) => createHash('sha256').update(text).digest('hex');
  const blobAt = (hex: string) => `blobs/sha256/${hex.slice(0, 2)}/${hex}/data`;
  const blob = async (text: string, ageMs?: number) => {
    const hex = hexOf(text);
    await put(blobAt(hex), text, ageMs);
    return hex;
  };
  const manifest = async (repository: string, tag: string | undefined, content: object) => {
    const text = JSON.stringify(content);
    const hex = await blob(text);
    // The registry takes no manifest whose parts the repository has not.
    for (const [, part = ''] of text.matchAll(/sha256:([0-9a-f]{64})/g))
      await put(`repositories/${repository}/_layers/sha256/${part}/link`, `sha256:${part}`);
    await put(`repositories/${repository}/_manifests/revisions/sha256/${hex}/link`, `sha256:${hex}`);
    if (tag !== undefined) await put(`repositories/${repository}/_manifests/tags/${tag}/current/link`, `sha256:${hex}`);
    return hex;
  };
  return { files, root, put, blob, manifest, has: (hex: string) => existsSync(join(root, blobAt(hex))) };
}

const digest = (hex: string) => ({ digest: `sha256:${hex}` });

test('what a manifest of any kind mentions stays, and old parts that none mentions go', async (t) => {
  const { files, root, put, blob, manifest, has } = await oldStore(t);
  const kept = [];
  for (const content of [
    (hex: string) => ({ schemaVersion: 2, config: digest(hex), layers: [] }),
    (hex: string) => ({ schemaVersion: 2, config: {}, layers: [digest(hex)] }),
    (hex: string) => ({ schemaVersion: 1, fsLayers: [{ blobSum: `sha256:${hex}` }] }),
    (hex: string) => ({ schemaVersion: 2, blobs: [digest(hex)], subject: digest(hex) }),
  ]) {
    const part = await blob(`part ${kept.length}`);
    kept.push(part, await manifest('ann/app', `v${kept.length}`, content(part)));
  }
  // An index without a tag at its parts, and a part that goes by a digest of another kind.
  const layer = await blob('for one machine');
  const machine = await manifest('ann/many', undefined, { schemaVersion: 2, layers: [digest(layer)] });
  kept.push(layer, machine, await manifest('ann/many', 'all', { schemaVersion: 2, manifests: [digest(machine)] }));
  const other = await blob('by another name');
  await put(`repositories/ann/many/_layers/sha512/${'a'.repeat(128)}/link`, `sha256:${other}`);
  const young = await blob('its manifest is on its way', DAY_MS / 2);
  const part = await blob('of what has no name');
  const unnamed = await manifest('ann/app', undefined, { schemaVersion: 2, layers: [digest(part)] });
  const orphan = await blob('of nothing');
  // A client deleted it: its folder is left.
  const deleted = await manifest('ann/app', undefined, { schemaVersion: 2, layers: [] });
  await rm(join(root, 'repositories/ann/app/_manifests/revisions/sha256', deleted, 'link'));
  const uploads = 'repositories/ann/app/_uploads';
  await put(`${uploads}/forsaken/data`, 'half');
  await put(`${uploads}/slow/startedat`, 'long ago');
  await put(`${uploads}/slow/data`, 'half', 1000);

  const bytes = [part, orphan, unnamed, deleted].map((hex) => join(root, 'blobs/sha256', hex.slice(0, 2), hex, 'data'));
  const size = bytes.reduce((sum, path) => sum + statSync(path).size, 0);
  assert.deepEqual(await collectGarbage(folderStore(files), { now: Date.now() }), {
    manifests: 1,
    blobs: 4,
    uploads: 1,
    bytes: size,
  });
  assert.deepEqual(
    [...kept, other, young].filter((hex) => !has(hex)),
    [],
  );
  assert.deepEqual([part, unnamed, deleted, orphan].filter(has), []);
  assert.deepEqual(
    ['forsaken', 'slow'].map((id) => existsSync(join(root, uploads, id))),
    [false, true],
  );
});

test('wherever it is cut, each manifest that is there has all of its parts', { timeout: 60_000 }, async (t) => {
  const { files, root, blob, manifest, has } = await oldStore(t);
  const parts = new Map<string, string[]>();
  for (let i = 0; i < 12; i++) {
    const layers = await Promise.all([blob(`${i}`), blob(`shared by two ${Math.floor(i / 2)}`)]);
    const content = { schemaVersion: 2, layers: layers.map(digest) };
    parts.set(await manifest('ann/app', i % 3 === 0 ? `v${i}` : undefined, content), layers);
  }
  const isThere = (hex: string) => existsSync(join(root, 'repositories/ann/app/_manifests/revisions/sha256', hex));
  let cuts = 0;
  for (let after = 0; ; after += 1) {
    const time = new AbortController();
    let steps = 0;
    const throwIfAborted = () => {
      steps += 1;
      if (steps > after) time.abort();
      AbortSignal.prototype.throwIfAborted.call(time.signal);
    };
    Object.defineProperty(time.signal, 'throwIfAborted', { value: throwIfAborted });
    const isCut = await collectGarbage(folderStore(files), { now: Date.now(), signal: time.signal }).then(
      () => false,
      () => true,
    );
    for (const [hex, layers] of parts)
      if (isThere(hex))
        assert.deepEqual(
          [hex, ...layers].filter((each) => !has(each)),
          [],
          `cut after ${after} steps`,
        );
    if (!isCut) break;
    cuts += 1;
  }
  assert.ok(cuts > 20, `${cuts} cuts`);
  assert.deepEqual([...parts.keys()].map(isThere).filter(Boolean).length, 4);
});
