/**
 * The test runner. `npm test`, `npm run test:quick`, `npm run test:all` and `npm run test:turn` are its tiers; `-- PATTERN...` runs those files of all tiers
 * whose path contains one of the patterns; `--list` only lists them. CONTRIBUTING.md ("Run tests") tells what each is for.
 *
 * It starts the shared real parts (shared-parts.mjs), runs the built files in lanes (lanes.mjs), and says what failed, what was skipped and
 * what was left running. Up to MAX_REPEATED files that failed run once more, each alone; one that passes then is named as unsteady.
 *
 * TROUPE_TEST_REAL=required makes a skipped test a failure. TROUPE_TEST_CACHE names a folder where slow parts keep their data between
 * runs. TROUPE_TEST_BUILDING names a folder in which a build of Kubernetes (scripts/kubernetes-build.sh), begun before, writes its exit code
 * as `result` when it ends.
 */
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { availableParallelism, constants } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { collectCoverage, reportCoverage } from './coverage.mjs';
import { runInLanes } from './lanes.mjs';
import { conclude, hasFailed, printFile, printSlowest, writeTimes } from './report.mjs';
import { startSharedParts } from './shared-parts.mjs';
import { sortTests, TURN_DAYS, turnOf } from './tiers.mjs';

/** Lanes at the same time. Each takes up to 1.5 GB. */
const LANES = { least: availableParallelism() + 1, most: 5 * availableParallelism() };
const ONE = { least: 1, most: 1 };
/** Of a machine that is half as fast as common ones. */
const FILE_TIMEOUT_MS = { quick: 120_000, standard: 600_000, turn: 720_000, all: 1_200_000 };
const MAX_REPEATED = 12;
/** With so few files, each test has a line. */
const FEW_FILES = 12;

const USAGE = `Usage: main.mjs [options] [PATTERN...]

Runs the tests of a tier, or those files of all tiers whose path contains one of the patterns.

  --tier=NAME     quick, standard (default), turn or all
  --list          only lists the files
  --lanes=N       so many files at the same time
  --report=FILE   writes a line for each file: its ms, its ms of a processor, its path
  --seconds=N     of the tier turn: for how long files begin (default 900)
  --test-...      flags of Node's test runner, such as --test-name-pattern=WORDS`;

const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const print = (line) => process.stdout.write(`${line}\n`);
const isRequired = process.env.TROUPE_TEST_REAL === 'required';

/** The first SIGINT or SIGTERM, or the loss of the output: nothing new begins, everything is ended. */
const interrupted = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM']) {
  process.on(signal, () => {
    if (interrupted.signal.aborted) process.exit(128 + constants.signals[signal]); // Asked twice: do not tidy up.
    interrupted.abort(signal);
  });
}
process.stdout.on('error', () => interrupted.abort('SIGPIPE')); // Whoever read our output has left.

process.exitCode = await main(process.argv.slice(2));

async function main(args) {
  const nodeFlags = args.filter((arg) => arg.startsWith('--test-'));
  const { values, positionals } = parseArgs({
    args: args.filter((arg) => !arg.startsWith('--test-')),
    allowPositionals: true,
    options: {
      tier: { type: 'string', default: 'standard' },
      list: { type: 'boolean', default: false },
      /** Only answers, by its exit code, whether the files need a Kubernetes cluster. */
      'needs-cluster': { type: 'boolean', default: false },
      lanes: { type: 'string' },
      /** A file that gets a line for each test file: its time and its time of a processor, in ms, and its path, apart by tabs. */
      report: { type: 'string' },
      /** For `turn`: for how many more seconds files begin. */
      seconds: { type: 'string', default: '900' },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) {
    print(USAGE);
    return 0;
  }
  const tiers = await sortTests(root);
  const plan = planOf(tiers, values, positionals);
  if (plan.files.length === 0 && plan.notes.length === 0) {
    print(`No test file's path contains ${positionals.join(' or ')}.`);
    return 1;
  }
  if (values['needs-cluster']) return plan.files.some(({ onCluster }) => onCluster) ? 0 : 1;
  if (values.list) {
    for (const { source } of plan.files) print(source);
    for (const note of plan.notes) print(note);
    return 0;
  }
  const asked = values.lanes === undefined ? undefined : Number(values.lanes);
  const lanes = asked === undefined ? LANES : { least: asked, most: asked };
  return runPlan({ ...plan, lanes, report: values.report }, nodeFlags);
}

/** What to run: `files`, `tier`, whether it is a `whole` tier, `mayBegin()`, and `notes` for the end. */
function planOf({ quick, standard, rest }, { tier, seconds }, patterns) {
  const always = () => true;
  if (tier === 'turn') {
    const day = dayOfYear(new Date());
    const { turn, later } = turnOf(rest, day, changedFiles());
    const end = performance.now() + Number(seconds) * 1000;
    return { tier, files: turn, later, whole: true, mayBegin: () => performance.now() < end, notes: [] };
  }
  const ofTier = { quick, standard: [...standard, ...quick], all: [...standard, ...quick, ...rest] }[tier];
  if (patterns.length === 0) return { tier, files: ofTier, whole: true, mayBegin: always, notes: [] };
  const among = tier === 'quick' ? quick : [...standard, ...quick, ...rest];
  const files = among.filter(({ source }) => patterns.some((pattern) => source.includes(pattern)));
  return { tier: 'all', files, whole: false, mayBegin: always, notes: [], isQuick: tier === 'quick' };
}

async function runPlan(plan, nodeFlags) {
  const { tier, files, whole, notes } = plan;
  const begun = performance.now();
  const needsParts = tier !== 'quick' && plan.isQuick !== true;
  const parts = needsParts ? await startSharedParts(root) : { env: {}, notes: [], failed: [], stop: async () => {} };
  try {
    for (const note of parts.notes) print(note);
    if (whole && isRequired && parts.failed.length > 0) {
      for (const part of parts.failed) print(`FAILED: ${part}`);
      return 1;
    }
    const problems = [];
    const coverage = tier === 'all' && whole ? collectCoverage(root) : {};
    const sources = new Map(files.map(({ source, built }) => [join(root, built), source]));
    const sourceOf = (file) => sources.get(file) ?? file;
    const { NODE_TEST_CONTEXT: _, ...own } = process.env;
    const options = {
      lanes: plan.lanes,
      env: { ...own, ...parts.env, ...coverage },
      nodeFlags,
      fileTimeoutMs: FILE_TIMEOUT_MS[tier],
      mayBegin: plan.mayBegin,
      signal: interrupted.signal,
      onFile: (result) => printFile(result, sourceOf(result.file), files.length <= FEW_FILES),
    };
    // In the tiers that take their time, each file has a process: so it shows when one works only after others.
    const isApart = whole && (tier === 'all' || tier === 'turn');
    const asked = (some) => some.map(({ built, alone }) => ({ file: join(root, built), alone: alone || isApart }));
    const onCluster = files.filter((test) => test.onCluster);
    const beside = files.filter((test) => !test.onCluster);
    // The nodes of a cluster mostly wait: those tests run beside the others. One cluster is enough for a machine.
    const runs = await Promise.all([
      runInLanes(asked(beside), options),
      runOnCluster(asked(onCluster), { ...options, lanes: ONE }, plan, problems),
    ]);
    const results = runs.flatMap((run) => run.results);
    problems.push(...runs.flatMap((run) => run.left));
    const repeated = whole ? await repeat(results, options, problems) : [];
    if (whole && results.length > FEW_FILES) printSlowest(results, sourceOf);
    if (plan.report !== undefined) writeTimes(plan.report, results, sourceOf);
    if (plan.later !== undefined)
      notes.push(
        ...withoutTurn(
          plan,
          runs.flatMap((run) => run.notRun),
          sourceOf,
        ),
      );
    if ('NODE_V8_COVERAGE' in coverage && !interrupted.signal.aborted) {
      problems.push(...(await reportCoverage(root, interrupted.signal)));
    }
    notes.push(`${files.length} files, ${((performance.now() - begun) / 60_000).toFixed(1)} minutes`);
    const named = (result) => ({ ...result, file: sourceOf(result.file) });
    const code = conclude({ results: results.map(named), repeated: repeated.map(named), problems, notes, isRequired });
    return interrupted.signal.aborted ? 128 + constants.signals[interrupted.signal.reason] : code;
  } finally {
    await parts.stop();
  }
}

async function runOnCluster(files, options, { whole }, problems) {
  if (files.length === 0) return { results: [], left: [], notRun: [] };
  if (await isBuilt(process.env.TROUPE_TEST_BUILDING, options)) return runInLanes(files, options);
  if (whole && isRequired && options.mayBegin() && !interrupted.signal.aborted) {
    problems.push(`the programs of a Kubernetes cluster could not be built: ${files.length} files did not run`);
  }
  return { results: [], left: [], notRun: files.map(({ file }) => file) };
}

/** Waits until the build that writes into `folder` is over. Resolves with whether the programs are there. */
async function isBuilt(folder, { mayBegin }) {
  if (folder === undefined) return true;
  const result = join(folder, 'result');
  while (!existsSync(result) && mayBegin() && !interrupted.signal.aborted)
    await new Promise((resolve) => setTimeout(resolve, 1000));
  if (!existsSync(result)) return false;
  if (readFileSync(result, 'utf8').trim() === '0') return true;
  print(readFileSync(join(folder, 'log'), 'utf8').split('\n').slice(-40).join('\n'));
  return false;
}

/** Runs files that failed once more, each alone, with nothing beside it; not if there are many. */
async function repeat(results, options, problems) {
  const failed = results.filter(hasFailed);
  if (failed.length === 0 || failed.length > MAX_REPEATED || interrupted.signal.aborted) return [];
  print(`\nonce more, each alone: ${failed.map(({ file }) => relative(root, file)).join(', ')}`);
  const files = failed.map(({ file }) => ({ file, alone: true }));
  const again = await runInLanes(files, { ...options, lanes: ONE, mayBegin: () => true });
  problems.push(...again.left);
  return again.results;
}

/** What a run of the rest says of the files that had no turn. */
function withoutTurn({ later, files }, notRun, sourceOf) {
  const missed = new Set(notRun.map(sourceOf));
  const ran = new Set(files.map(({ source }) => source).filter((source) => !missed.has(source)));
  const dateIn = (days) => new Date(Date.now() + days * 86_400_000).toISOString().slice(0, 10);
  const waiting = new Map(
    later.filter(({ source }) => !ran.has(source)).map(({ source, daysLeft }) => [source, daysLeft]),
  );
  for (const source of missed) if (!waiting.has(source)) waiting.set(source, TURN_DAYS);
  if (waiting.size === 0) return [];
  const sorted = [...waiting].sort(([, a], [, b]) => a - b);
  return [`${waiting.size} files had no turn:`, ...sorted.map(([source, days]) => `  ${dateIn(days)}  ${source}`)];
}

/** Sources that the commits of the last day touch. */
function changedFiles() {
  try {
    const log = execFileSync('git', ['log', '--since=1 day ago', '--name-only', '--format='], {
      cwd: root,
      encoding: 'utf8',
    });
    return [...new Set(log.split('\n').filter((line) => /\.tsx?$/.test(line)))];
  } catch {
    return [];
  }
}

/** 1 on the first of January, by UTC. */
function dayOfYear(date) {
  return Math.floor((date.getTime() - Date.UTC(date.getUTCFullYear(), 0, 0)) / 86_400_000);
}
