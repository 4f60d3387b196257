/** What counts as the machine's disk: the file systems that hold the data, on a small one of the test's own. */
import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { diskPathsOf } from '../../cmd/node/roles/monitor.ts';
import type { NodeSample } from '../../proto/ports/metrics-source.ts';
import { hostMetrics } from '../../transports/clients/host/metrics.ts';
import { mountSkip, mountSmall } from '../support/monitor/small-disk.ts';
import { skipUnless } from '../support/require.ts';
import { tempDir } from '../support/temp.ts';

async function measured(...paths: string[]): Promise<NodeSample> {
  const source = hostMetrics({ name: 'box', paths });
  const { nodes } = await source.read(new AbortController().signal);
  const [node] = nodes ?? [];
  assert.ok(node !== undefined);
  return node;
}

test('disks: a node shows the fullest file system of those that hold its data, and says when one is under pressure', {
  skip: mountSkip(),
}, async (t) => {
  const small = await mountSmall(t, '10m');
  const folder = join(small, 'deep', 'down');
  await mkdir(folder, { recursive: true });
  const pressure = ({ conditions }: NodeSample) => conditions.find(({ type }) => type === 'DiskPressure')?.status;
  const MB = 2 ** 20;
  const before = await measured(small, folder);
  assert.deepEqual(
    before.disks?.map(({ path }) => path),
    [small],
  );
  assert.equal(before.diskCapacityBytes, 10 * MB);
  assert.equal(pressure(before), 'False');
  await writeFile(join(folder, 'file'), Buffer.alloc(9.5 * MB));
  const after = await measured('/', folder);
  assert.deepEqual(after.disks?.map(({ path }) => path).sort(), ['/', small]);
  assert.equal(after.diskCapacityBytes, 10 * MB);
  assert.ok(after.diskBytes >= 9.5 * MB && after.diskBytes <= 10 * MB, String(after.diskBytes));
  assert.equal(pressure(after), 'True');
});

test('disks: a folder that is gone is a source that fails, not a wrong number', async () => {
  await assert.rejects(measured('/', '/nowhere/at/all'), { code: 'ENOENT' });
});

test('disks: without an engine that says where it keeps things, the data folder counts; DISK_PATHS counts alone', async (t) => {
  const dataDir = await tempDir(t);
  const of = (more: object) => diskPathsOf({ environment: {}, dataDir, dockerHost: 'tcp://192.0.2.1:1', ...more });
  assert.deepEqual(await of({}), [dataDir]);
  assert.deepEqual(await of({ dataDir: undefined }), ['/']);
  assert.deepEqual(await of({ environment: { DISK_PATHS: ['/tmp'] } }), ['/tmp']);
  await assert.rejects(of({ environment: { DISK_PATHS: ['/tmp', '/nowhere/at/all'] } }), /DISK_PATHS names \/nowhere/);
});

test('disks: the folder where a local Docker Engine keeps its data counts, too', {
  skip: skipUnless(
    Boolean(process.env.DOCKER_HOST?.startsWith('unix:')),
    'no Docker Engine on this machine: set DOCKER_HOST',
  ),
}, async (t) => {
  const dataDir = await tempDir(t);
  const paths = await diskPathsOf({ environment: {}, dataDir, dockerHost: process.env.DOCKER_HOST ?? '' });
  assert.equal(paths.length, 2);
  assert.equal(paths[0], dataDir);
  assert.match(paths[1] ?? '', /^\//);
});
