/**
 * The test runner behind `npm test [-- PATTERN... --node-test-flags]`: starts shared real parts, runs the built test files
 * with coverage, and says what was skipped, what was left running and what is not covered. Exit code 0 only when all is well.
 * In a run of everything, up to MAX_REPEATED files that failed run once more, with nothing beside them; those that pass then are
 * named as unsteady at the end: the machine was too slow for them, or they have a race, and somebody should look.
 *
 * Tests on a Kubernetes cluster run beside the others, and in a run of everything only with TROUPE_TEST_KUBERNETES=on: their programs take
 * long to build. TROUPE_TEST_BUILDING names a folder in which such a build (scripts/kubernetes-build.sh), begun before, writes its `log` and
 * in the end its exit code as `result`: they wait for it.
 *
 * Files named `*.long.test.ts` run when a pattern names them. A run of everything has them after the others, each begun only while
 * the run is not older than TROUPE_TEST_LONG says, in minutes (default 45; `on`: all of them). It tells how many had no turn, and
 * judges the coverage only when all had one.
 *
 * TROUPE_TEST_REAL=required makes a skipped test a failure, and ends a run of everything at once when a shared part does not start. TROUPE_TEST_CACHE names a folder where slow parts keep their
 * data between runs.
 */
import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { closeSync, existsSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs';
import { availableParallelism, constants, tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { watchProcesses } from './processes.mjs';
import { startSharedParts } from './shared-parts.mjs';
import { COVERED, filesOfFailures, findLong, findOnCluster, findTests, findTypeOnly } from './test-files.mjs';

/** Of a machine that is twice as slow as common ones, and busy: one file builds Debian systems. */
const FILE_TIMEOUT_MS = 1_200_000;
/** One more than there are processors: about half of the time, a file waits for an engine, a broker or a deadline. */
const CONCURRENCY = availableParallelism() + 1;
/** A machine at common speed is through with all before. */
const LONG_MINUTES = '45';
const MIN_LINES_PERCENT = 90;
const MAX_REPEATED = 8;
const SLOWEST_SHOWN = 30;

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const coverageDir = join(root, 'coverage');
const print = (line) => process.stdout.write(`${line}\n`);
const isRequired = process.env.TROUPE_TEST_REAL === 'required';

/** Set by the first SIGINT, SIGTERM or loss of the output: nothing new begins, everything is ended. */
let interrupted;
const running = new Set();
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
  const found = findTests(root, patterns);
  if (found.length === 0) {
    print(`No test file's path contains ${patterns.join(' or ')}.`);
    return 1;
  }
  const isWhole = patterns.length === 0 && flags.length === 0;
  const long = isWhole ? findLong(found, new Date().toISOString().slice(0, 10)) : [];
  const files = found.filter((file) => !long.includes(file));
  const endOfLong = performance.now() + minutesOfLong() * 60_000;
  const scratch = mkdtempSync(join(tmpdir(), 'troupe-run-'));
  rmSync(coverageDir, { recursive: true, force: true });
  mkdirSync(join(coverageDir, 'tmp'), { recursive: true });
  const parts = await startSharedParts(root);
  try {
    for (const note of parts.notes) print(note);
    if (isWhole && isRequired && parts.failed.length > 0) {
      for (const part of parts.failed) print(`FAILED: ${part}`);
      return 1;
    }
    const problems = [];
    const notes = [];
    const result = { skipped: [], summary: [], failures: [], problems: [], left: [], durations: [] };
    const ran = [];
    const onCluster = findOnCluster(root, files);
    const longOnCluster = findOnCluster(root, long);
    let withoutTurn = long.length;
    const rest = files.filter((file) => !onCluster.includes(file));
    const run = async (some, own, output) => {
      if (interrupted || some.length === 0) return;
      ran.push(...some);
      const part = await runTests(some, [...own, ...flags], parts.env, scratch, output);
      for (const key of ['skipped', 'failures', 'problems', 'left', 'durations']) result[key].push(...part[key]);
      result.summary.push(...part.summary);
      if (part.summary.length === 0) result.problems.push('the tests gave no summary');
    };
    const alone = ['--test-concurrency=1'];
    const output = rest.length === 0 ? undefined : join(scratch, 'on-cluster');
    let canRunOnCluster = false;
    const runLong = async (some, atOnce, ...how) => {
      for (let at = 0; at < some.length && performance.now() < endOfLong; at += atOnce) {
        const now = some.slice(at, at + atOnce);
        withoutTurn -= now.length;
        await run(now, ...how);
      }
    };
    const runOnCluster = async () => {
      if (onCluster.length === 0) return;
      const many = `${onCluster.length + longOnCluster.length} files of tests`;
      if (isWhole && process.env.TROUPE_TEST_KUBERNETES !== 'on') {
        notes.push(`${many} need a Kubernetes cluster: \`npm test -- kubernetes\` (docs/engineering/trials.md)`);
      } else if (await built(process.env.TROUPE_TEST_BUILDING)) {
        // One cluster is enough for a machine.
        canRunOnCluster = true;
        await run(onCluster, alone, output);
      } else if (!interrupted) {
        const lack = `WITHOUT KUBERNETES: its programs could not be built, ${many} did not run`;
        (isRequired ? problems : notes).push(lack);
      }
    };
    // The nodes of a cluster mostly wait: those tests run beside the others, and are shown after them.
    await Promise.all([run(rest, []), runOnCluster()]);
    const longBeside = long.filter((file) => !longOnCluster.includes(file));
    await Promise.all([
      runLong(longBeside, CONCURRENCY, []),
      canRunOnCluster && runLong(longOnCluster, 1, alone, output),
    ]);
    // Those that need a cluster which is not there are told of above.
    if (!canRunOnCluster) withoutTurn -= longOnCluster.length;
    if (withoutTurn > 0)
      notes.push(
        `${withoutTurn} files of long tests had no turn, so the coverage is not known: TROUPE_TEST_LONG=on, or \`npm test -- .long.\` (docs/engineering/trials.md, "Long tests")`,
      );
    if (output !== undefined && existsSync(output)) process.stdout.write(readFileSync(output));
    result.summary = summed(result.summary);
    if (isWhole && !interrupted) reportSlowest(result.durations);
    const failed = isWhole && !interrupted ? filesOfFailures(root, ran, result.failures) : [];
    if (failed.length > 0 && failed.length <= MAX_REPEATED) {
      print(`\nonce more, with nothing beside them: ${failed.join(', ')}`);
      const again = await runTests(failed, alone, parts.env, scratch);
      // What was left running the first time stays a problem.
      problems.push(...result.left, ...again.problems);
      const failedAgain = new Set(again.failures.map(({ name }) => name));
      for (const { name, reason } of result.failures)
        notes.push(
          failedAgain.has(name)
            ? `FAILED TWICE: ${name}: ${reason}`
            : `UNSTEADY: ${name} (failed once, then passed alone): ${reason}`,
        );
      if (again.problems.length === 0) result.summary = withoutFailures(result.summary);
    } else {
      problems.push(...result.problems);
    }
    if (isWhole && !interrupted && withoutTurn === 0) problems.push(...(await reportCoverage()));
    return interrupted ? 128 + constants.signals[interrupted] : conclude(result, problems, notes);
  } finally {
    await parts.stop();
    rmSync(scratch, { recursive: true, force: true });
  }
}

function interrupt(signal) {
  interrupted ??= signal;
  for (const child of running) child.kill('SIGTERM');
}

/** For how long a run of everything begins long tests, minutes. */
function minutesOfLong() {
  const { TROUPE_TEST_LONG: given = LONG_MINUTES } = process.env;
  return given === 'on' ? Number.POSITIVE_INFINITY : Number(given);
}

/** A child that is ended when this process is. */
function begun(child) {
  running.add(child);
  child.once('exit', () => running.delete(child));
  return child;
}

/** Waits until the build that writes into `folder` is over, and shows its log when it failed. Resolves with whether the programs are there. */
async function built(folder) {
  if (folder === undefined) return true;
  const result = join(folder, 'result');
  if (!existsSync(result)) print('waiting for the programs of a Kubernetes cluster');
  while (!existsSync(result) && !interrupted) await new Promise((resolve) => setTimeout(resolve, 1000));
  if (interrupted || readFileSync(result, 'utf8').trim() === '0') return true;
  print(readFileSync(join(folder, 'log'), 'utf8').split('\n').slice(-40).join('\n'));
  return false;
}

/**
 * Runs node's test runner over the files, which prints to the file `output` if that is given. Keeps its files in `scratch`.
 * Resolves with its summary, the skipped tests and what went wrong.
 */
async function runTests(files, flags, partsEnv, scratch, output) {
  const id = randomUUID();
  const resultsFile = join(scratch, id);
  const reporter = pathToFileURL(join(root, 'scripts/results-reporter.mjs')).href;
  const reporters = ['spec', 'stdout', reporter, resultsFile].map((value, i) =>
    i % 2 === 0 ? `--test-reporter=${value}` : `--test-reporter-destination=${value}`,
  );
  const processorTime = pathToFileURL(join(root, 'scripts/processor-time.mjs')).href;
  const own = [
    ...[`--import=${processorTime}`, `--test-concurrency=${CONCURRENCY}`, `--test-timeout=${FILE_TIMEOUT_MS}`],
    ...reporters,
  ];
  // What c8 does for a command it runs; children of the tests inherit it, so the CLI they start counts too.
  const env = {
    ...process.env,
    ...partsEnv,
    TROUPE_TEST_RUN: id,
    TROUPE_TEST_PROCESSOR_TIME: `${resultsFile}-processor-time`,
    NODE_V8_COVERAGE: join(coverageDir, 'tmp'),
  };
  const to = output === undefined ? 'inherit' : openSync(output, 'a');
  const child = begun(
    spawn(process.execPath, ['--enable-source-maps', '--test', ...own, ...flags, ...files], {
      cwd: root,
      env,
      stdio: ['ignore', to, to],
    }),
  );
  if (to !== 'inherit') closeSync(to);
  const processes = watchProcesses(child.pid, `TROUPE_TEST_RUN=${id}`);
  const [code, signal] = await once(child, 'exit');

  const ending = code === 0 || interrupted ? undefined : `the tests ended with ${signal ?? `exit code ${code}`}`;
  const results = readResults(resultsFile, env.TROUPE_TEST_PROCESSOR_TIME);
  const left = [];
  for (const { pid, command } of await processes.left()) {
    print(`left running, now ended: ${pid} ${command}`);
    left.push(`process ${pid} was left running: ${command}`);
    try {
      process.kill(pid, 'SIGKILL');
    } catch {
      // It ended by itself in between.
    }
  }
  const problems = [...(ending === undefined ? [] : [ending, ...results.failures.map(({ name }) => name)]), ...left];
  return { ...results, left, problems };
}

/** What the reporter wrote. All is empty when the tests ended before they began. */
function readResults(file, processorTimes) {
  const lines = readLines(file);
  const processorMs = new Map();
  for (const { file, processorMs: ms } of readLines(processorTimes)) {
    const source = join(root, relative(join(root, 'dist'), file).replace(/\.js$/, '.ts'));
    processorMs.set(source, (processorMs.get(source) ?? 0) + ms);
  }
  const skipped = lines.filter((line) => 'skipped' in line && line.reason !== 'test name does not match pattern');
  return {
    skipped: skipped.map(({ skipped: name, reason }) => `${name}: ${reason}`),
    summary: lines.flatMap(({ summary }) => (summary === undefined ? [] : [`# ${summary}`])),
    failures: lines.flatMap(({ failed, file, reason }) =>
      failed === undefined ? [] : [{ name: failed, location: file, reason }],
    ),
    durations: lines
      .filter((line) => 'ms' in line)
      .map(({ file, ms }) => ({ file, ms, processorMs: processorMs.get(file) ?? 0 })),
  };
}

function readLines(file) {
  const written = existsSync(file) ? readFileSync(file, 'utf8').split('\n').filter(Boolean) : [];
  return written.map((line) => JSON.parse(line));
}

/** Prints the files that took longest, and those that worked most: the place to look when the whole run is too long. */
function reportSlowest(durations) {
  const seconds = (ms) => (ms / 1000).toFixed(1).padStart(7);
  for (const [key, most] of [
    ['ms', 'took longest'],
    ['processorMs', 'used the processors most'],
  ]) {
    const shown = durations.toSorted((a, b) => b[key] - a[key]).slice(0, SLOWEST_SHOWN);
    print(`\nthe ${shown.length} files that ${most} (seconds, seconds of a processor):`);
    for (const { file, ms, processorMs } of shown)
      print(`${seconds(ms)} ${seconds(processorMs)}  ${relative(root, file)}`);
  }
  const total = durations.reduce((sum, { processorMs }) => sum + processorMs, 0);
  print(`all files: ${seconds(total)} seconds of a processor`);
}

/** Prints the coverage of the whole project; resolves with what is wrong with it. */
async function reportCoverage() {
  const includes = COVERED.flatMap((room) => [`--include=${room}/**`, `--include=dist/${room}/**`]);
  const excludes = findTypeOnly(root).map((file) => `--exclude=${file}`);
  const c8 = join(root, 'node_modules/c8/bin/c8.js');
  const options = [
    ...['--src=.', '--all', '--exclude-after-remap', ...includes, '--exclude=**/*.d.ts', ...excludes],
    // One process's counts after another: all at once are more than a heap holds.
    '--merge-async',
    ...[`--temp-directory=${join(coverageDir, 'tmp')}`, `--reports-dir=${coverageDir}`],
    ...['--reporter=text', '--reporter=lcovonly', '--check-coverage', `--lines=${MIN_LINES_PERCENT}`],
  ];
  const child = begun(spawn(process.execPath, [c8, 'report', ...options], { cwd: root, stdio: 'inherit' }));
  const [code, signal] = await once(child, 'exit');
  if (signal !== null) return [`the report of the coverage ended with ${signal}`];
  return code === 0 ? [] : [`less than ${MIN_LINES_PERCENT}% of lines covered, or no report of it`];
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

/** The summary when all that failed passed when it ran once more. */
function withoutFailures(summary) {
  const count = (key) =>
    Number(
      summary
        .find((line) => line.startsWith(`# ${key} `))
        ?.split(' ')
        .at(-1) ?? 0,
    );
  const passed = count('tests') - count('skipped') - count('todo');
  return summary.map((line) =>
    line.replace(/^# (pass|fail|cancelled) .*$/, (_, key) => `# ${key} ${key === 'pass' ? passed : 0}`),
  );
}

function conclude({ skipped, summary }, problems, notes) {
  if (skipped.length > 0) {
    print(`\n${skipped.length} skipped:`);
    for (const test of skipped) print(`  ${test}`);
    if (isRequired) problems.push(`${skipped.length} tests were skipped, and TROUPE_TEST_REAL=required`);
  }
  print('');
  for (const line of summary) print(line);
  for (const note of notes) print(note);
  for (const problem of problems) print(`FAILED: ${problem}`);
  return problems.length === 0 ? 0 : 1;
}
