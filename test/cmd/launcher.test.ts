/** bin/troupe: which Node it runs the program with, from wherever it is called. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { chmod, cp, mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { nodeRelease } from '../../cmd/config/node-release.ts';
import { packageFile } from '../../lib/package-file.ts';
import { tempDir } from '../support/temp.ts';

const run = promisify(execFile);

/** A file that says who it is and what it was called with. */
async function program(path: string, name: string): Promise<void> {
  await mkdir(join(path, '..'), { recursive: true });
  await writeFile(path, `#!/bin/sh\necho "${name}" "$@"\n`);
  await chmod(path, 0o755);
}

/** A checkout whose program and Nodes only say that they were called, and a folder with the machine's node. */
async function checkout(folder: string, { built = true, brought = true } = {}) {
  await cp(packageFile('bin'), join(folder, 'bin'), { recursive: true });
  if (built) await program(join(folder, 'dist', 'program', 'main.js'), 'main');
  const arch = process.arch === 'arm64' ? 'arm64' : 'x64';
  if (brought) await program(join(folder, 'node_modules', `node-linux-${arch}`, 'bin', 'node'), 'own');
  const machine = join(folder, 'machine');
  await program(join(machine, 'node'), 'machine');
  return { troupe: join(folder, 'bin', 'troupe'), node: join(folder, 'bin', 'node'), machine };
}

/** What the program was called with: its own path, in whatever way, then the words. */
function called(stdout: string, name: string, words: string): void {
  assert.match(stdout, /^(\w+) (\S| )*dist\/program\/main\.js/);
  assert.equal(stdout.replace(/ .*dist\/program\/main\.js/, ''), `${name}${words}\n`);
}

test('it runs the Node that came with the package, from any folder and through links', async (t) => {
  const folder = join(await tempDir(t), 'a clone');
  const { troupe, node, machine } = await checkout(folder);
  const env = { PATH: `${machine}:/usr/bin:/bin` };
  const links = join(folder, 'links');
  await mkdir(links);
  await symlink(troupe, join(links, 'absolute'));
  await symlink('absolute', join(links, 'troupe'));
  for (const [command, cwd] of [
    ['./bin/troupe', folder],
    ['../bin/troupe', links],
    ['./troupe', join(folder, 'bin')],
    [troupe, '/'],
    [join(links, 'troupe'), '/'],
  ] as const)
    called((await run(command, ['run', 'two words', ''], { cwd, env })).stdout, 'own', ' run two words ');
  called((await run('troupe', ['ps'], { env: { PATH: `${links}:${env.PATH}` } })).stdout, 'own', ' ps');
  called((await run('sh', ['troupe', 'ps'], { cwd: join(folder, 'bin'), env })).stdout, 'own', ' ps');
  assert.equal((await run(node, ['-p', '6 * 7'], { env })).stdout, 'own -p 6 * 7\n');
});

test("without one it runs the machine's, and says what to do where there is none", async (t) => {
  const folder = await tempDir(t);
  const { troupe, machine } = await checkout(folder, { brought: false });
  // Its own folder may be the first that is searched.
  const env = { PATH: `${join(folder, 'bin')}:${machine}:/usr/bin:/bin` };
  called((await run(troupe, ['ps'], { env })).stdout, 'machine', ' ps');
  const none = join(folder, 'none');
  await mkdir(none);
  await assert.rejects(run(troupe, ['ps'], { env: { PATH: none } }), (error: { code: number; stderr: string }) => {
    assert.equal(error.code, 1);
    assert.match(error.stderr, /no Node\.js was found: run `npm ci`.*, or install Node\.js 24 or 26/);
    return true;
  });
});

test("where its library is missing the machine's runs; up --install gets the library", async (t) => {
  const folder = await tempDir(t);
  const { troupe, machine } = await checkout(folder);
  const finder = join(folder, 'bin', 'find-node.sh');
  await writeFile(finder, (await readFile(finder, 'utf8')).replaceAll('libatomic.so.1', 'libmissing.so.1'));
  const own = join(folder, 'node_modules', `node-linux-${process.arch}`, 'bin', 'node');
  await writeFile(own, `#!/bin/sh\n[ -e "${folder}/installed" ] || exit 127\necho own "$@"\n`);
  await writeFile(join(machine, 'id'), '#!/bin/sh\necho 0\n', { mode: 0o755 });
  const aptGet = `#!/bin/sh\n[ "$1" = install ] && echo "$@" >"${folder}/installed"\n`;
  await writeFile(join(machine, 'apt-get'), aptGet, { mode: 0o755 });
  const env = { PATH: `${machine}:/usr/bin:/bin` };
  for (const words of [['up'], ['run', 'x', '--install']])
    called((await run(troupe, words, { env })).stdout, 'machine', ` ${words.join(' ')}`);
  called((await run(troupe, ['up', '--install'], { env })).stdout, 'own', ' up --install');
  assert.match(await readFile(join(folder, 'installed'), 'utf8'), /^install .* libatomic1$/m);
});

test('it says that it is not built', async (t) => {
  const { troupe } = await checkout(await tempDir(t), { built: false });
  await assert.rejects(run(troupe, []), /not built yet: run `npm ci && npm run build` first/);
});

const COMPILED = packageFile('node_modules/ssh2/lib/protocol/crypto/build/Release/sshcrypto.node');

test('the ciphers of SSH are compiled for the Node that runs the program', {
  skip: existsSync(COMPILED) ? false : 'they are not compiled on this machine',
}, async () => {
  const { stdout } = await run(packageFile('bin/node'), [
    '-p',
    'Object.keys(require(process.argv[1])).length',
    COMPILED,
  ]);
  assert.ok(Number(stdout) > 0);
});

test('a Node is enough from 22.19 on, and its line has a day on which support ends', () => {
  const on = (version: string, day = '2026-11-28') => nodeRelease(version, new Date(day));
  for (const version of ['18.20.8', '20.20.2', '22.18.0']) assert.equal(on(version).isEnough, false, version);
  for (const version of ['22.19.0', '24.0.0', '26.12.1', '27.1.0']) assert.equal(on(version).isEnough, true, version);
  assert.equal(on('26.12.1').words, '26.12.1, supported until 2029-04-30');
  assert.equal(on('22.23.5', '2027-04-30').words, '22.23.5, supported until 2027-04-30');
  assert.equal(on('22.23.5', '2027-05-01').words, '22.23.5, without security fixes since 2027-04-30');
  assert.equal(on('25.1.0').words, '25.1.0, not a line that this Troupe is tested on');
});
