/** Which adapter a choice comes to, and which binaries are never loaded. */
import assert from 'node:assert/strict';
import { copyFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { listen, planAdapter } from '../../transports/http/index.ts';
import { KNOWN_BUILDS, loadUws, readBuild, uwsBuild } from '../../transports/http/uws-library.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { tempDir } from '../support/temp.ts';

failOnLeaks();

const target = `${process.platform}_${process.arch}_${process.versions.modules}`;
/** Declares a test where uWebSockets.js has a binary for this version of Node.js. */
const testOfBuild = uwsBuild() === undefined ? () => undefined : test;
const options = {
  ...{ host: '127.0.0.1', port: 0 },
  onRequest: () => ({ status: 200, headers: [] }),
  onUpgrade: () => ({ refuse: { status: 404, headers: [] } }),
};

test('auto is the own server where the installed build is known to fail the test, and where there is none', async (t) => {
  const server = await listen(options);
  t.after(() => server.close(0));
  assert.equal(server.adapter, 'own');
});

testOfBuild('the installed build is in the list of those that may be loaded', () => {
  const build = uwsBuild();
  assert.equal(build?.known?.target, target);
  assert.equal(readBuild(build?.file ?? '', target).sha256, build?.sha256);
});

testOfBuild(
  'a binary that differs by a byte is not loaded: the own server takes its place, with a warning',
  async (t) => {
    const file = join(await tempDir(t), 'uws.node');
    copyFileSync(uwsBuild()?.file ?? '', file);
    writeFileSync(file, 'x', { flag: 'a' });
    const build = readBuild(file, target);
    assert.equal(build.known, undefined);
    assert.equal(loadUws(build), undefined);
    for (const choice of ['auto', 'uws'] as const) {
      const plan = await planAdapter(choice, build);
      assert.equal(plan.adapter, 'own');
      assert.match(plan.warning ?? '', new RegExp(build.sha256));
    }
  },
);

testOfBuild('a build for another machine is not known here', () => {
  assert.equal(readBuild(uwsBuild()?.file ?? '', 'linux_x64_1').known, undefined);
});

testOfBuild('a build that nobody has tried is tried once, and taken only if it is strict', async () => {
  const build = uwsBuild();
  assert.ok(build?.known);
  const { conforms: _, ...known } = build.known;
  const untried = { ...build, known };
  const plan = await planAdapter('auto', untried);
  assert.equal(plan.adapter, 'own');
  assert.ok((plan.fails ?? []).length > 0);
  assert.equal((await planAdapter('auto', untried)).fails, plan.fails);
});

testOfBuild(
  'asked for by name, uWebSockets.js serves where its build is known and loads; else that is said',
  async () => {
    // A build may want a newer C library than this machine has.
    if (loadUws() !== undefined) assert.equal((await planAdapter('uws')).adapter, 'uws');
    else await assert.rejects(planAdapter('uws'), { code: 'adapter_unavailable', message: /does not load/ });
  },
);

test('the list names a build of each platform once', () => {
  const names = [...KNOWN_BUILDS.values()].map(({ version, target: of }) => `${version} ${of}`);
  assert.equal(new Set(names).size, names.length);
  for (const sha256 of KNOWN_BUILDS.keys()) assert.match(sha256, /^[0-9a-f]{64}$/);
});
