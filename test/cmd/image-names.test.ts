/** Images of the catalog by the name that people type, where a command says what a container is made from. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { troupe } from '../support/cluster/platform.ts';
import { tempDir } from '../support/temp.ts';

const HASH = '0123456789abcdef';
const PYTHON = `troupe.invalid/python:${HASH}`;

/** A platform with one container, whose image is another once it was changed, and the command line at it. */
async function open(t: TestContext, next: string) {
  const sizes = { instance_type: 'nano', memory_mb: 512, memory_used_mb: 1, storage_gb: 5, storage_used_gb: 1 };
  const about = { id: 'aaaaaaaaaaa1', name: 'web', status: 'running', hostname: 'aaaaaaaaaaa1.compute.cloud.test' };
  const web = { ...sizes, ...about, created_at: '2026-11-27T00:00:00Z', pull_policy: 'IfNotPresent', image: PYTHON };
  const server = createServer(({ method, url = '' }, reply) => {
    const path = url.replace(/\?.*/, '');
    const found =
      path === '/compute/containers'
        ? { containers: [web] }
        : method === 'PATCH'
          ? { ...web, image: next }
          : path === '/compute/images'
            ? []
            : { rules: [], mount_paths: [], domains: [], ...web };
    reply.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(found));
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  t.after(() => server.close());
  const address = server.address();
  assert.ok(typeof address === 'object' && address !== null);
  const url = `http://127.0.0.1:${address.port}`;
  const env = { XDG_CONFIG_HOME: join(await tempDir(t), 'config'), TROUPE_URL: url, TROUPE_TOKEN: 'svc_x' };
  return (...args: string[]) => troupe(args, { env });
}

test('a change of the image, and what is shown of a container, say the name that --image takes', async (t) => {
  for (const [image, typed] of [
    [`troupe.invalid/node:${HASH}`, 'node'],
    [`troupe.invalid/base:${HASH}`, 'default'],
    ['registry.cloud.test/ann/web:1', 'registry.cloud.test/ann/web:1'],
  ] as const) {
    const run = await open(t, image);
    const { code, stderr } = await run('update', 'web', '--image', typed, '--no-wait');
    assert.equal(code, 0, stderr);
    assert.equal(stderr, `Changed web: the image (${typed}). It was not restarted.\n`);
    const json = await run('update', 'web', '--image', typed, '--no-wait', '--json');
    assert.equal(JSON.parse(json.stdout).image, image);
  }
});

test('show has the image, in JSON as the platform says it', async (t) => {
  const run = await open(t, PYTHON);
  const shown = await run('show', 'web');
  assert.match(shown.stdout, /^image\s+python$/m, shown.stderr);
  assert.equal(JSON.parse((await run('show', 'web', '--json')).stdout).image, PYTHON);
});
