/** The coverage of a run, as c8 tells it from what V8 has written. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';

const MIN_LINES_PERCENT = 90;
/** The rooms whose coverage counts. */
const COVERED = ['lib', 'proto', 'client', 'supervision', 'actors', 'transports', 'storage', 'cmd'];

/** Empties the folder of a run's coverage. Returns the variable that has Node write it there, in children too. */
export function collectCoverage(root) {
  const folder = join(root, 'coverage');
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(join(folder, 'tmp'), { recursive: true });
  return { NODE_V8_COVERAGE: join(folder, 'tmp') };
}

/** Prints the coverage of the whole project; resolves with what is wrong with it. */
export async function reportCoverage(root, signal) {
  const folder = join(root, 'coverage');
  const includes = COVERED.flatMap((room) => [`--include=${room}/**`, `--include=dist/${room}/**`]);
  const excludes = findTypeOnly(root).map((file) => `--exclude=${file}`);
  const options = [
    ...['--src=.', '--all', '--exclude-after-remap', ...includes, '--exclude=**/*.d.ts', ...excludes],
    // One process's counts after another: all at once are more than a heap holds.
    '--merge-async',
    ...[`--temp-directory=${join(folder, 'tmp')}`, `--reports-dir=${folder}`],
    ...['--reporter=text', '--reporter=lcovonly', '--check-coverage', `--lines=${MIN_LINES_PERCENT}`],
  ];
  const child = spawn(process.execPath, [join(root, 'node_modules/c8/bin/c8.js'), 'report', ...options], {
    cwd: root,
    stdio: 'inherit',
  });
  signal.addEventListener('abort', () => child.kill('SIGTERM'), { once: true });
  const [code, ending] = await once(child, 'exit');
  if (ending !== null) return [`the report of the coverage ended with ${ending}`];
  return code === 0 ? [] : [`less than ${MIN_LINES_PERCENT}% of lines covered, or no report of it`];
}

/** Sources of the covered rooms that hold types only: nothing ever loads them, so they cannot be covered. */
function findTypeOnly(root) {
  return COVERED.filter((room) => existsSync(join(root, 'dist', room))).flatMap((room) =>
    readdirSync(join(root, 'dist', room), { recursive: true })
      .filter((file) => file.endsWith('.js') && holdsNoCode(readFileSync(join(root, 'dist', room, file), 'utf8')))
      .map((file) => join(room, file.replace(/\.js$/, '.ts'))),
  );
}

function holdsNoCode(built) {
  const code = built.replace(/\/\*[\s\S]*?\*\/|^\s*\/\/.*$/gm, '').trim();
  return code === '' || code === 'export {};';
}
