/**
 * `npm run test:mutants [-- COUNT [SEED]]`: does `npm test` notice when the product is wrong? Breaks one line of the built product at a time, COUNT times
 * (default 300), and runs the files of `npm test` that import it, the nearest first, until one fails. The same SEED chooses the same lines of the same sources.
 *
 * Prints each line that no test noticed, and the share that was noticed. It changes files of dist/ and puts them back; build again after
 * it was killed.
 */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { runInLanes } from './lanes.mjs';
import { hasFailed } from './report.mjs';
import { startSharedParts } from './shared-parts.mjs';
import { sortTests } from './tiers.mjs';

const ROOMS = ['lib', 'proto', 'client', 'supervision', 'actors', 'transports', 'storage', 'cmd'];
/** Files of tests that judge a line, at most. What imports it from farther away knows little of it. */
const MAX_JUDGES = 24;
const FILE_TIMEOUT_MS = 180_000;

/** What is done to a line: what it matches, and what it becomes. */
const OPERATORS = [
  [/ === /, ' !== '],
  [/ !== /, ' === '],
  [/ < /, ' <= '],
  [/ <= /, ' < '],
  [/ > /, ' >= '],
  [/ >= /, ' > '],
  [/ && /, ' || '],
  [/ \|\| /, ' && '],
  [/ \?\? .+;$/, ';'],
  [/\btrue\b/, 'false'],
  [/\bfalse\b/, 'true'],
  [/ \+ /, ' - '],
  [/ - /, ' + '],
  [/\b(\d[\d_]*)\b(?!n)/, (digits) => String(Number(digits.replaceAll('_', '')) + 1)],
  [/\breturn (?!undefined)[^{([]+;$/, 'return undefined;'],
  [/^(\s*)(?:await )?[\w.#]+\(.*\);$/, '$1;'],
  [/\bif \((.*)\)/, 'if (!($1))'],
];
const NO_CODE = /^\s*(?:\/\/|\*|\/\*|import\b|export (?:\*|\{)|\}|$)/;

const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const print = (line) => process.stdout.write(`${line}\n`);

const [count = '300', seed = '1'] = process.argv.slice(2);
const interrupted = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => interrupted.abort(signal));
await main(Number(count), randomOf(Number(seed)));

async function main(count, random) {
  const { quick, standard } = await sortTests(root);
  const tests = [...quick, ...standard];
  const lines = ROOMS.flatMap((room) => linesOf(join('dist', room)));
  const parts = await startSharedParts(root);
  const { NODE_TEST_CONTEXT: _, ...own } = process.env;
  const env = { ...own, ...parts.env, TROUPE_TEST_REAL: 'required' };
  let [noticed, judged] = [0, 0];
  try {
    while (judged < count && !interrupted.signal.aborted) {
      const { file, at, text } = lines[Math.floor(random() * lines.length)];
      const fitting = OPERATORS.filter(([pattern]) => pattern.test(text));
      if (fitting.length === 0) continue;
      const [pattern, becomes] = fitting[Math.floor(random() * fitting.length)];
      const broken = text.replace(pattern, becomes);
      const judges = tests
        .filter(({ distances }) => distances.has(file))
        .sort((a, b) => a.distances.get(file) - b.distances.get(file))
        .slice(0, MAX_JUDGES);
      const by = await judge({ file, at, broken }, judges, env);
      if (interrupted.signal.aborted) break;
      judged += 1;
      if (by !== undefined) noticed += 1;
      print(
        `${by === undefined ? 'NOT NOTICED' : 'noticed'} ${file}:${at + 1} ${text.trim()} -> ${broken.trim()}${by === undefined ? '' : ` (${by})`}`,
      );
    }
  } finally {
    await parts.stop();
  }
  print(`${noticed} of ${judged} broken lines were noticed`);
}

/** Resolves with the test file that noticed a broken line; undefined when none did. */
async function judge({ file, at, broken }, judges, env) {
  const path = join(root, file);
  const whole = readFileSync(path, 'utf8');
  writeFileSync(path, whole.split('\n').with(at, broken).join('\n'));
  let by;
  try {
    await runInLanes(
      judges.map(({ built }) => ({ file: join(root, built), alone: false })),
      {
        lanes: { least: availableParallelism(), most: 2 * availableParallelism() },
        env,
        nodeFlags: [],
        fileTimeoutMs: FILE_TIMEOUT_MS,
        mayBegin: () => by === undefined,
        signal: interrupted.signal,
        onFile: (result) => {
          if (hasFailed(result)) by ??= result.file.slice(root.length + 1);
        },
      },
    );
  } finally {
    writeFileSync(path, whole);
  }
  return by;
}

function linesOf(folder) {
  return readdirSync(join(root, folder), { recursive: true })
    .filter((file) => file.endsWith('.js'))
    .sort()
    .flatMap((name) => {
      const file = join(folder, name);
      const lines = readFileSync(join(root, file), 'utf8').split('\n');
      return lines.flatMap((text, at) => (NO_CODE.test(text) ? [] : [{ file, at, text }]));
    });
}

/** Numbers from 0 to 1 that depend on the seed alone (a linear congruential generator, Numerical Recipes). */
function randomOf(seed) {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}
