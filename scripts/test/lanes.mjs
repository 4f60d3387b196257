/**
 * Runs test files in lanes: processes that take one file after another from a queue (lane.mjs). A lane ends when the queue is empty, when
 * it has grown too large, and after a file that needs a process of its own. Most of the time a file waits for an engine, a browser or a
 * deadline: so lanes are added while the processors have nothing to do, and end while they have too much.
 */
import { fork } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { watchProcesses } from './processes.mjs';
import { watchProcessors } from './processor.mjs';

const here = fileURLToPath(new URL('.', import.meta.url));
/** A lane that has more than this in memory takes no other file, bytes. */
const LARGEST_LANE = 1.5 * 2 ** 30;
/** How long a lane may take to end once it has nothing to do. */
const END_MS = 10_000;
/** With more than this share of the processors idle a lane is added, with less than that one ends after its file. */
const IDLE = { add: 0.25, end: 0.05 };
/** Of what a file prints, the last characters are shown when it failed. */
const OUTPUT_KEPT = 16_000;

/**
 * Runs `files`, each `{ file, alone }`: the built file's absolute path, and whether it has a process of its own.
 *
 * `lanes`: `{ least, most }` at the same time. `env`: the environment. `nodeFlags`: more flags of Node. `fileTimeoutMs`: how long a file may take
 * before its lane is killed. `mayBegin()`: whether another file may begin; those for which it is false are not run. `onFile(result)` gets each result
 * as it comes. `signal` ends all.
 *
 * Resolves with `{ results, left, notRun }`. A result is `{ file, tests, ms, processorMs, problems, output }`: `tests` as reporter.mjs has them, `problems`
 * what else went wrong. `left`: processes that the files left running, as text; they are ended.
 */
export async function runInLanes(files, options) {
  const queue = [...files];
  const results = [];
  const left = [];
  const done = (result) => {
    results.push(result);
    options.onFile(result);
  };
  const { least, most } = options.lanes;
  const processors = watchProcessors();
  let open = 0;
  const mayContinue = () => queue.length > 0 && options.mayBegin() && !options.signal.aborted;
  /** Whether a lane that has ended a file takes another one. */
  const mayTake = () => mayContinue() && (open <= least || (processors.idle() ?? 1) > IDLE.end);
  const failures = [];
  const work = async () => {
    open++;
    try {
      while (mayTake()) await useLane(queue, { ...options, mayTake }, done, left);
    } catch (error) {
      failures.push(error);
      queue.length = 0;
    } finally {
      open--;
    }
  };
  const works = Array.from({ length: Math.min(least, files.length) }, work);
  const addition = setInterval(() => {
    if (open < most && mayContinue() && (processors.idle() ?? 0) > IDLE.add) works.push(work());
  }, processors.everyMs);
  try {
    for (const each of works) await each; // Those that are added meanwhile, too.
  } finally {
    clearInterval(addition);
    processors.stop();
  }
  if (failures.length > 0) throw failures[0];
  return { results, left, notRun: queue.map(({ file }) => file) };
}

/** Starts a lane, and has it run files of the queue until it ends. */
async function useLane(queue, options, done, left) {
  const mark = randomUUID();
  const child = fork(join(here, 'lane.mjs'), {
    execArgv: [
      '--enable-source-maps',
      '--no-warnings=ExperimentalWarning',
      `--test-reporter=${new URL('./reporter.mjs', import.meta.url).href}`,
      '--test-reporter-destination=stdout',
      ...options.nodeFlags,
    ],
    env: { ...options.env, TROUPE_TEST_RUN: mark },
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
  });
  const processes = watchProcesses(child.pid, `TROUPE_TEST_RUN=${mark}`);
  const exited = once(child, 'exit');
  const end = () => child.kill('SIGTERM');
  options.signal.addEventListener('abort', end, { once: true });
  const lane = laneOf(child, exited);
  try {
    let next = await lane.isReady;
    if (!next && !options.signal.aborted) throw new Error(`a process for tests did not start:\n${lane.output()}`);
    while (next && queue.length > 0 && (next === 'unused' || options.mayTake()) && !options.signal.aborted) {
      // A file that needs a process of its own has the next one when this one was used.
      if (queue[0].alone && next !== 'unused') break;
      const { file, alone } = queue.shift();
      const result = await lane.run(file, options.fileTimeoutMs);
      next = result.ended || alone || result.rss > LARGEST_LANE ? false : 'used';
      done(result);
    }
    const stuck = await lane.end();
    if (stuck) left.push(`a process of tests did not end by itself: ${stuck}`);
  } finally {
    options.signal.removeEventListener('abort', end);
  }
  for (const { pid, command } of await processes.left()) {
    left.push(`process ${pid} was left running: ${command}`);
    try {
      process.kill(pid, 'SIGKILL');
    } catch {
      // It ended by itself in between.
    }
  }
}

function laneOf(child, exited) {
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk) => {
      output = `${output}${chunk}`.slice(-OUTPUT_KEPT);
    });
  }
  let onMessage = () => {};
  child.on('message', (message) => onMessage(message));
  const isReady = Promise.race([
    new Promise((resolve) => {
      onMessage = (message) => message.ready && resolve('unused');
    }),
    exited.then(() => false),
  ]);
  let last = 'nothing';

  const run = async (file, timeoutMs) => {
    last = file;
    output = '';
    const begun = performance.now();
    const tests = [];
    const problems = [];
    const finished = new Promise((resolve) => {
      onMessage = (message) => {
        if ('test' in message) tests.push(message);
        else if ('stray' in message) problems.push(message.stray);
        else if ('failedToLoad' in message) problems.push(`it could not be loaded: ${message.error}`);
        else if ('done' in message) resolve(message);
      };
    });
    const timer = setTimeout(() => {
      problems.push(`it was ended: it took longer than ${timeoutMs / 1000} s`);
      child.kill('SIGKILL');
    }, timeoutMs);
    const answer = await Promise.race([finished, exited.then(([code, signal]) => ({ code, signal }))]);
    clearTimeout(timer);
    const ended = !('done' in answer);
    if (ended && problems.length === 0)
      problems.push(`its process ended with ${answer.signal ?? `code ${answer.code}`}`);
    if (!ended && answer.left.length > 0) problems.push(`it left open: ${answer.left.join(', ')}`);
    const ms = performance.now() - begun;
    const processorMs = answer.processorMs ?? 0;
    return { file, tests, ms, processorMs, problems, output, ended, rss: answer.rss ?? 0 };
  };

  /** Resolves with what is wrong when the process does not end by itself. */
  const end = async () => {
    if (child.connected) child.send({ end: true }, () => {});
    let stuck;
    const timer = setTimeout(() => {
      stuck = `the last file was ${last}\n${output.slice(-1000)}`;
      child.kill('SIGKILL');
    }, END_MS);
    await exited;
    clearTimeout(timer);
    return stuck;
  };

  return {
    isReady,
    output: () => output,
    run: (file, timeoutMs) => {
      const running = run(file, timeoutMs);
      child.send({ file }, () => {});
      return running;
    },
    end,
  };
}
