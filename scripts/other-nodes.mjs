/**
 * `npm run test:nodes [-- VERSION...]` runs the tests of what lies close to Node.js (the gateway, its wires and TLS, the
 * HTTP adapters, SSH) on the other lines of it that are supported. npm brings them into a temporary folder.
 */
import { spawnSync } from 'node:child_process';
import { globSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const OTHERS = ['22.23.5', '24.22.3'];
const FOLDERS = ['gateway', 'http', 'ssh'];

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const given = process.argv.slice(2);
const files = FOLDERS.flatMap((folder) => globSync(`dist/test/${folder}/*.test.js`, { cwd: root }));
const quick = files.filter((file) => !file.endsWith('.long.test.js')).sort();

for (const version of given.length > 0 ? given : OTHERS) {
  const folder = mkdtempSync(join(tmpdir(), 'troupe-node-'));
  try {
    const name = `node-${process.platform}-${process.arch}`;
    // A folder without a manifest would be taken for a part of one above it.
    writeFileSync(join(folder, 'package.json'), '{}');
    run('npm', ['install', '--no-save', '--no-audit', '--no-fund', '--ignore-scripts', `${name}@${version}`], folder);
    const node = join(folder, 'node_modules', name, 'bin', 'node');
    process.stdout.write(`\nNode.js ${version}, ${quick.length} files\n`);
    run(node, ['--enable-source-maps', '--test', '--test-reporter=dot', '--test-concurrency=2', ...quick], root);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** Runs it to its end; a failure is this program's, too. */
function run(program, args, cwd) {
  const { status, error } = spawnSync(program, args, { cwd, stdio: 'inherit' });
  if (error) throw error;
  if (status !== 0) process.exitCode = status ?? 1;
}
