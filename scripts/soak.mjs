/**
 * `npm run soak -- NAME` builds the project and runs the long test test/soak/NAME.ts. Without a name it lists them. What
 * is tried is what people run: compiled code starts in half the time that its sources take.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const folder = join(root, 'test/soak');
const [name, ...args] = process.argv.slice(2);

if (name === undefined || !/^[\w-]+$/.test(name) || !existsSync(join(folder, `${name}.ts`))) {
  const names = readdirSync(folder).filter((file) => file.endsWith('.ts'));
  process.stdout.write(`${names.map((file) => file.slice(0, -3)).join('\n')}\n`);
  if (name !== undefined) process.exitCode = 1;
} else {
  const script = join(root, 'dist/test/soak', `${name}.js`);
  process.exitCode =
    run('npm', ['run', '-s', 'build']) || run(process.execPath, ['--enable-source-maps', script, ...args]);
}

/** Runs a program to its end, and returns its exit code. */
function run(program, args) {
  const { status, error } = spawnSync(program, args, { cwd: root, stdio: 'inherit' });
  if (error) throw error;
  return status ?? 1;
}
