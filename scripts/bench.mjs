/**
 * `npm run bench -- NAME [ARGS...]` builds the project and runs one benchmark. Without a name it lists them, each with the
 * question it answers (the first line of its header comment).
 */
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const folder = join(root, 'bench');
const [name, ...args] = process.argv.slice(2);

if (name === undefined) list();
else if (!/^[\w-]+$/.test(name) || !existsSync(join(folder, `${name}.ts`))) {
  process.stderr.write(`There is no benchmark ${name}.\n`);
  list();
  process.exitCode = 1;
} else {
  // A broken build of one part should not keep the others from being measured: tsc writes what it can.
  run([join(root, 'node_modules/typescript/bin/tsc'), '-p', join(root, 'tsconfig.json')]);
  process.exitCode = run(['--enable-source-maps', join(root, 'dist/bench', `${name}.js`), ...args]);
}

function list() {
  const names = readdirSync(folder).filter((file) => file.endsWith('.ts'));
  for (const file of names.sort()) {
    const header = /\/\*\*\s*(?:\*\s*)?(.*?)\s*(?:\*\/|\n)/.exec(readFileSync(join(folder, file), 'utf8'));
    process.stdout.write(`${file.slice(0, -3).padEnd(16)} ${header?.[1] ?? ''}\n`);
  }
}

/** Runs node with these arguments; gives its exit code. */
function run(nodeArgs) {
  const { status, error } = spawnSync(process.execPath, nodeArgs, { cwd: root, stdio: 'inherit' });
  if (error) throw error;
  return status ?? 1;
}
