/**
 * The test runner behind `npm test [-- PATTERN... --node-test-flags]`: starts shared real parts, runs the built test files
 * with coverage, and says what was skipped, what was left running and what is not covered. Exit code 0 only when all is well.
 *
 * Tests on a Kubernetes cluster run last. TROUPE_TEST_BUILDING names a folder in which a build of its programs (scripts/kubernetes-build.sh),
 * begun before, writes its `log` and in the end its exit code as `result`: they wait for it.
 *
 * TROUPE_TEST_REAL=required makes a skipped test a failure. TROUPE_TEST_CACHE names a folder where slow parts keep their
 * data between runs.
 */
import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { constants, tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { watchProcesses } from './processes.mjs';
import { startSharedParts } from './shared-parts.mjs';
import { COVERED, findTests, findTypeOnly } from './test-files.mjs';

const FILE_TIMEOUT_MS = 240_000;
/** A cluster takes long to start, and so do its pods. */
const CLUSTER_FILE_TIMEOUT_MS = 600_000;
const CONCURRENCY = 2;
const MIN_LINES_PERCENT = 90;

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const coverageDir = join(root, 'coverage');
const print = (line) => process.stdout.write(`${line}\n`);
const isRequired = process.env.TROUPE_TEST_REAL === 'required';

/** Set by the first SIGINT, SIGTERM or loss of the output: nothing new begins, everything is ended. */
let interrupted;
let running;
for (const signal of ['SIGINT', 'SIGTERM']) {
  process.on(signal, () => {
    if (interrupted) process.exit(128 + constants.signals[signal]); // Asked twice: do not tidy up.
    interrupt(signal);
  });
}
process.stdout.on('error', () => interrupt('SIGPIPE')); // Whoever read our output has left.

process.exitCode = await main(process.argv.slice(2));

async function main(args) {
  const flags = args.filter((arg) => arg.startsWith('-'));
  const patterns = args.filter((arg) => !arg.startsWith('-'));
  const files = findTests(root, patterns);
  if (files.length === 0) {
    print(`No test file's path contains ${patterns.join(' or ')}.`);
    return 1;
  }
  const isWhole = patterns.length === 0 && flags.length === 0;
  const scratch = mkdtempSync(join(tmpdir(), 'troupe-run-'));
  rmSync(coverageDir, { recursive: true, force: true });
  mkdirSync(join(coverageDir, 'tmp'), { recursive: true });
  const parts = await startSharedParts(root);
  try {
    for (const note of parts.notes) print(note);
    const problems = [];
    const result = { skipped: [], summary: [] };
    const onCluster = files.filter((file) => file.includes('kubernetes'));
    for (const some of [files.filter((file) => !onCluster.includes(file)), onCluster]) {
      if (interrupted || some.length === 0) continue;
      if (some === onCluster) await built(process.env.TROUPE_TEST_BUILDING);
      if (interrupted) continue;
      const part = await runTests(some, flags, parts.env, {
        tapFile: join(scratch, 'tap'),
        timeoutMs: some === onCluster ? CLUSTER_FILE_TIMEOUT_MS : FILE_TIMEOUT_MS,
      });
      problems.push(...part.problems);
      if (part.summary.length === 0) problems.push('the tests gave no summary');
      result.skipped.push(...part.skipped);
      result.summary.push(...part.summary);
    }
    if (isWhole && !interrupted && !(await reportCoverage()))
      problems.push(`less than ${MIN_LINES_PERCENT}% of lines covered`);
    return interrupted ? 128 + constants.signals[interrupted] : conclude(result, problems);
  } finally {
    await parts.stop();
    rmSync(scratch, { recursive: true, force: true });
  }
}

function interrupt(signal) {
  interrupted ??= signal;
  running?.kill('SIGTERM');
}

/** Waits until the build that writes into `folder` is over, and shows its log when it failed. Its tests say the rest. */
async function built(folder) {
  if (folder === undefined) return;
  const result = join(folder, 'result');
  if (!existsSync(result)) print('waiting for the programs of a Kubernetes cluster');
  while (!existsSync(result) && !interrupted) await new Promise((resolve) => setTimeout(resolve, 1000));
  if (interrupted || readFileSync(result, 'utf8').trim() === '0') return;
  print(readFileSync(join(folder, 'log'), 'utf8').split('\n').slice(-40).join('\n'));
}

/** Runs node's test runner over the files. Resolves with its summary, the skipped tests and what went wrong. */
async function runTests(files, flags, partsEnv, { tapFile, timeoutMs }) {
  const id = randomUUID();
  const reporters = ['spec', 'stdout', 'tap', tapFile].map((value, i) =>
    i % 2 === 0 ? `--test-reporter=${value}` : `--test-reporter-destination=${value}`,
  );
  const own = [`--test-concurrency=${CONCURRENCY}`, `--test-timeout=${timeoutMs}`, ...reporters];
  // What c8 does for a command it runs; children of the tests inherit it, so the CLI they start counts too.
  const env = { ...process.env, ...partsEnv, TROUPE_TEST_RUN: id, NODE_V8_COVERAGE: join(coverageDir, 'tmp') };
  running = spawn(process.execPath, ['--enable-source-maps', '--test', ...own, ...flags, ...files], {
    cwd: root,
    env,
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  const processes = watchProcesses(running.pid, `TROUPE_TEST_RUN=${id}`);
  const [code, signal] = await once(running, 'exit');
  running = undefined;

  const problems = code === 0 || interrupted ? [] : [`the tests ended with ${signal ?? `exit code ${code}`}`];
  for (const { pid, command } of await processes.left()) {
    print(`left running, now ended: ${pid} ${command}`);
    problems.push(`process ${pid} was left running: ${command}`);
    try {
      process.kill(pid, 'SIGKILL');
    } catch {
      // It ended by itself in between.
    }
  }
  return { ...readTap(tapFile), problems };
}

/** The summary lines of a TAP report, and `name: reason` of each skipped test. */
function readTap(file) {
  let tap = '';
  try {
    tap = readFileSync(file, 'utf8');
  } catch {
    // The tests ended before they began.
  }
  const lines = tap.split('\n');
  const skipped = lines.flatMap((line) => {
    const [, name, reason] = /^\s*ok \d+ - (.*?) # SKIP ?(.*)$/.exec(line) ?? [];
    if (name === undefined || reason === 'test name does not match pattern') return [];
    return [`${name.replace(/\\(.)/g, '$1')}: ${reason || 'no reason given'}`];
  });
  const summary = lines.filter((line) =>
    /^# (tests|suites|pass|fail|cancelled|skipped|todo|duration_ms) [\d.]+$/.test(line),
  );
  return { skipped, summary: summary.slice(-8) };
}

/** Prints the coverage of the whole project; resolves with whether it reaches the floor. */
async function reportCoverage() {
  const includes = COVERED.flatMap((room) => [`--include=${room}/**`, `--include=dist/${room}/**`]);
  const excludes = findTypeOnly(root).map((file) => `--exclude=${file}`);
  const c8 = join(root, 'node_modules/c8/bin/c8.js');
  const options = [
    ...['--src=.', '--all', '--exclude-after-remap', ...includes, '--exclude=**/*.d.ts', ...excludes],
    ...[`--temp-directory=${join(coverageDir, 'tmp')}`, `--reports-dir=${coverageDir}`],
    ...['--reporter=text', '--reporter=lcovonly', '--check-coverage', `--lines=${MIN_LINES_PERCENT}`],
  ];
  running = spawn(process.execPath, [c8, 'report', ...options], { cwd: root, stdio: 'inherit' });
  const [code] = await once(running, 'exit');
  running = undefined;
  return code === 0;
}

/** Summary lines of several runs as those of one. */
function summed(lines) {
  const sums = new Map();
  for (const line of lines) {
    const [, name, number] = line.split(' ');
    sums.set(name, (sums.get(name) ?? 0) + Number(number));
  }
  return [...sums].map(([name, sum]) => `# ${name} ${sum}`);
}

function conclude({ skipped = [], summary = [] }, problems) {
  if (skipped.length > 0) {
    print(`\n${skipped.length} skipped:`);
    for (const test of skipped) print(`  ${test}`);
    if (isRequired) problems.push(`${skipped.length} tests were skipped, and TROUPE_TEST_REAL=required`);
  }
  print('');
  for (const line of summed(summary)) print(line);
  for (const problem of problems) print(`FAILED: ${problem}`);
  return problems.length === 0 ? 0 : 1;
}
