/** The collection of images without a name: how long it may take, and what it reads, on a store of files. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, open, rename, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { collectGarbage } from '../../cmd/node/registry/collect.ts';
import { registryFiles } from '../../cmd/node/registry/files.ts';
import { tempDir } from '../support/temp.ts';
import { until } from '../support/until.ts';

const MANIFEST = '{"schemaVersion":2}';
const HEX = createHash('sha256').update(MANIFEST).digest('hex');
const UNNAMED = 'f'.repeat(64);

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
  // Stands for Distribution's program: it says that it was run.
  const swept = join(folder, 'swept');
  const program = async (then = '') => {
    const path = join(folder, 'sweep');
    await writeFile(path, `#!/bin/sh\n: > '${swept}'\n${then}\n`, { mode: 0o700 });
    return path;
  };
  return { files, manifest: join(blob, 'data'), unnamed, swept, program };
}

test('a manifest that several repositories have is read once', { timeout: 60_000 }, async (t) => {
  const { files, manifest, unnamed, swept, program } = await storeOf(t, ['ann/a', 'ann/b', 'bob/c']);
  execFileSync('mkfifo', [manifest]);
  const collected = collectGarbage(files, { program: await program(), now: Date.now() });
  // Opens as soon as it is read for the first time. Who reads again finds what is no manifest.
  const pipe = await open(manifest, 'w');
  await rename(manifest, `${manifest}.read`);
  await writeFile(manifest, 'no manifest');
  await pipe.writeFile(MANIFEST);
  await pipe.close();
  assert.equal(await collected, 3);
  assert.deepEqual(unnamed.map(existsSync), [false, false, false]);
  assert.ok(existsSync(swept));
});

test('when the time ends while repositories are looked at, nothing is collected', { timeout: 60_000 }, async (t) => {
  const { files, manifest, unnamed, swept, program } = await storeOf(t, ['ann/a', 'ann/b', 'bob/c']);
  execFileSync('mkfifo', [manifest]);
  const time = new AbortController();
  const collected = collectGarbage(files, { program: await program(), now: Date.now(), signal: time.signal });
  const refused = assert.rejects(collected, /took too long: nothing was collected/);
  const pipe = await open(manifest, 'w');
  time.abort();
  await pipe.writeFile(MANIFEST);
  await pipe.close();
  await refused;
  assert.deepEqual(unnamed.map(existsSync), [true, true, true]);
  assert.ok(!existsSync(swept));
});

test("what is left of the time is the sweep's", { timeout: 60_000 }, async (t) => {
  const { files, manifest, swept, program } = await storeOf(t, ['ann/a']);
  await writeFile(manifest, MANIFEST);
  const time = new AbortController();
  const sweep = await program('exec sleep 600');
  const collected = collectGarbage(files, { program: sweep, now: Date.now(), signal: time.signal });
  const refused = assert.rejects(collected, /took too long: the rest is for the next start/);
  await until(() => existsSync(swept), { what: 'the sweep runs' });
  time.abort();
  await refused;
});
