/**
 * `npm ci` ends with this (`prepare`): it compiles the native parts of packages for the Node.js that runs Troupe, which
 * is rarely the one that runs npm. Without a compiler SSH runs in JavaScript.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const modules = join(dirname(dirname(fileURLToPath(import.meta.url))), 'node_modules');
/** The headers of this Node.js, where its package has them: no download, and never those of another version. */
const release = dirname(dirname(process.execPath));
const env = { ...process.env };
if (existsSync(join(release, 'include', 'node', 'node.h'))) env.npm_config_nodedir = release;

const PARTS = [
  {
    folder: join(modules, 'ssh2', 'lib', 'protocol', 'crypto'),
    program: 'sshcrypto.node',
    flags: [`--real_openssl_major=${Number.parseInt(process.versions.openssl, 10)}`],
    // V8 has no Context::GetIsolate since Node.js 26. What takes its place is in every version from 22 on.
    prepare(folder) {
      const file = join(folder, 'src', 'binding.cc');
      const source = readFileSync(file, 'utf8');
      writeFileSync(file, source.replaceAll('context->GetIsolate()', 'v8::Isolate::GetCurrent()'));
    },
  },
  {
    folder: join(modules, 'cpu-features'),
    program: 'cpufeatures.node',
    flags: [],
    prepare(folder) {
      const { status, stdout } = spawnSync(process.execPath, ['buildcheck.js'], { cwd: folder, encoding: 'utf8' });
      if (status === 0) writeFileSync(join(folder, 'buildcheck.gypi'), stdout);
    },
  },
];

for (const { folder, program, flags, prepare } of PARTS) {
  const built = join(folder, 'build', 'Release', program);
  if (!existsSync(folder) || loads(built)) continue;
  const gyp = process.env.npm_config_node_gyp;
  if (gyp === undefined) {
    say(`${program} is not compiled: run \`npm run prepare\``);
    continue;
  }
  prepare(folder);
  const args = [gyp, 'rebuild', `--target=${process.version}`, ...flags];
  spawnSync(process.execPath, args, { cwd: folder, env });
  if (!loads(built)) say(`${program} could not be compiled, which takes Python 3, make and a C++ compiler`);
}

/** Whether this Node.js can load it. In a process of its own: what failed once in one fails there again. */
function loads(path) {
  return existsSync(path) && spawnSync(process.execPath, ['-e', `require(${JSON.stringify(path)})`]).status === 0;
}

function say(line) {
  process.stdout.write(`${line}; SSH works without it, but slower\n`);
}
