/**
 * `npm run test:quick [-- --list | PATTERN...]`: runs the tests that need no server (rule.ts), as they are built in
 * dist/. With patterns only those whose path contains one. `--list` runs nothing: it prints them, and what each of the others needs.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { availableParallelism } from 'node:os';
import { projectRoot } from '../support/project.ts';
import { sortTests } from './rule.ts';

const FILE_TIMEOUT_MS = 120_000;
/** Files for each processor: many tests wait for timeouts most of their time. */
const PER_PROCESSOR = 3;

const print = (line: string) => process.stdout.write(`${line}\n`);

async function main(args: readonly string[]): Promise<number> {
  const patterns = args.filter((arg) => !arg.startsWith('-'));
  const { quick, others } = sortTests(projectRoot);
  const files = quick.filter((file) => patterns.length === 0 || patterns.some((pattern) => file.includes(pattern)));
  for (const file of files) print(file);
  if (args.includes('--list')) {
    print(`\n${files.length} files need no server. ${others.size} do, or start programs:`);
    for (const way of others.values()) print(way.join(' -> '));
    return 0;
  }
  if (files.length === 0) {
    print(`No quick test file's path contains ${patterns.join(' or ')}.`);
    return 1;
  }
  const begun = performance.now();
  const code = await runTests(files);
  const seconds = ((performance.now() - begun) / 1000).toFixed(1);
  print(`${files.length} files in ${seconds} s. ${others.size} files need servers or programs: npm test`);
  return code;
}

/** Resolves with the exit code of node's test runner. SIGINT and SIGTERM end it. */
async function runTests(files: readonly string[]): Promise<number> {
  const built = files.map((file) => `dist/${file.replace(/\.ts$/, '.js')}`);
  const flags = [
    `--test-concurrency=${availableParallelism() * PER_PROCESSOR}`,
    `--test-timeout=${FILE_TIMEOUT_MS}`,
    '--test-reporter=spec',
  ];
  const child = spawn(process.execPath, ['--enable-source-maps', '--test', ...flags, ...built], {
    cwd: projectRoot,
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  const end = () => child.kill('SIGTERM');
  process.on('SIGINT', end).on('SIGTERM', end);
  const [code] = await once(child, 'exit');
  return typeof code === 'number' ? code : 1;
}

process.exitCode = await main(process.argv.slice(2));
