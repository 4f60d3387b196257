/**
 * A process that runs many test files, one after another, so that what they share is loaded once. lanes.mjs starts it and sends
 * `{ file }`, a built test file's absolute path; it answers with what reporter.mjs says of the tests, and then with
 * `{ done: file, processorMs, rss, left }`. `left` names the kinds of timers, sockets and processes that the file left open.
 * `{ end: true }` ends it.
 */
import { readFileSync } from 'node:fs';
import { enableCompileCache, registerHooks } from 'node:module';
import { describe } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath, pathToFileURL } from 'node:url';

/** How long what a file began may take to end after its last test. */
const GRACE_MS = 5000;
const POLL_MS = 10;
/** proc(5): /proc/pid/stat counts in hundredths of a second on all platforms that Node supports. */
const TICK_MS = 10;

// Coverage of functions that were compiled earlier is less precise. Programs that tests start have a cache of their own.
if (process.env.NODE_V8_COVERAGE === undefined) {
  enableCompileCache(fileURLToPath(new URL('../../node_modules/.cache/tests', import.meta.url)));
}

const built = new URL('../../dist/', import.meta.url).href;
const declaredUrl = new URL('./declared.mjs', import.meta.url).href;
registerHooks({
  resolve(specifier, context, next) {
    if (specifier !== 'node:test' || context.parentURL?.startsWith(built) !== true) return next(specifier, context);
    return { url: declaredUrl, shortCircuit: true };
  },
});
const { collect } = await import(declaredUrl);
const { activeResources, leftOver } = await import(`${built}test/support/leaks.js`);

process.on('message', ({ file, end }) => {
  if (end) process.disconnect();
  else void run(file);
});
process.send({ ready: true });

const realNow = Date.now;

async function run(file) {
  const used = processorMs();
  const resources = activeResources();
  // failOnLeaks() of the file puts here what may stay (test/support/leaks.ts).
  globalThis.troupeTestLane = { allowed: [] };
  const failure = await collect(() => import(pathToFileURL(file).href)).then(
    (declared) => {
      void describe(file, () => {
        for (const declare of declared) declare();
      });
    },
    (error) => error,
  );
  if (failure !== undefined) process.send({ failedToLoad: file, error: failure?.stack ?? String(failure) });
  else await suiteEnds();
  const left = await leftOpen(resources, globalThis.troupeTestLane.allowed);
  if (Date.now !== realNow) {
    Date.now = realNow;
    left.push('another Date.now');
  }
  process.send({ done: file, processorMs: processorMs() - used, rss: process.memoryUsage.rss(), left });
}

/** Resolves when the reporter has told of the end of the suite that runs now. */
function suiteEnds() {
  return new Promise((resolve) => process.once('troupe:suite-ended', resolve));
}

/** Waits until no more is open than before, and names what stays open for longer than the grace period. */
async function leftOpen(before, allowed) {
  const deadline = performance.now() + GRACE_MS;
  for (;;) {
    const left = leftOver(before, activeResources(), allowed);
    if (left.length === 0 || performance.now() > deadline) return left;
    await delay(POLL_MS, undefined, { ref: false });
  }
}

/** What this process and the children that it has waited for have used, ms. */
function processorMs() {
  let stat;
  try {
    stat = readFileSync('/proc/self/stat', 'utf8');
  } catch {
    const { user, system } = process.cpuUsage();
    return (user + system) / 1000;
  }
  // The second field is the program's name in brackets, and may hold blanks.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return fields.slice(11, 15).reduce((sum, field) => sum + Number(field), 0) * TICK_MS;
}
