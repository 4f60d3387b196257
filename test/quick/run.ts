/**
 * `npm run test:quick [-- --list | PATTERN...]`: runs the tests that need no server (rule.ts), from their sources, without a build.
 * With patterns only those whose path contains one. `--list` runs nothing: it prints them, and what each of the others needs.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { availableParallelism } from 'node:os';
import { projectRoot } from '../kit/project.ts';
import { sortTests } from './rule.ts';

/** A file that takes longer is none that anybody waits for. */
const FILE_TIMEOUT_MS = 60_000;

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
  const flags = [`--test-concurrency=${availableParallelism()}`, `--test-timeout=${FILE_TIMEOUT_MS}`];
  const child = spawn(process.execPath, ['--import', 'tsx', '--test', '--test-reporter=spec', ...flags, ...files], {
    cwd: projectRoot,
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  const end = () => child.kill('SIGTERM');
  process.on('SIGINT', end).on('SIGTERM', end);
  const [code] = await once(child, 'exit');
  return typeof code === 'number' ? code : 1;
}

process.exitCode = await main(process.argv.slice(2));
