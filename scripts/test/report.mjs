/** What a run of tests prints. */
import { writeFileSync } from 'node:fs';

const SLOWEST_SHOWN = 20;

const print = (line) => process.stdout.write(`${line}\n`);
const seconds = (ms) => `${(ms / 1000).toFixed(1)} s`;

/** Whether a file's result has something that went wrong. */
export const hasFailed = ({ tests, problems }) => problems.length > 0 || tests.some(({ ok }) => !ok);

/** Prints a file's result: one line, and what failed. `source`: its path. `all`: whether each test has a line. */
export function printFile(result, source, all) {
  const { tests, ms, problems, output } = result;
  const failed = hasFailed(result);
  const skipped = tests.filter(({ skip }) => skip !== undefined).length;
  const counts = `${tests.length} tests${skipped > 0 ? `, ${skipped} skipped` : ''}`;
  print(`${failed ? '✖' : '✔'} ${source} (${counts}, ${seconds(ms)})`);
  for (const { test, ok, skip, ms, at, error } of tests) {
    if (all && ok) print(`    ${skip === undefined ? '✔' : '-'} ${test} (${skip ?? seconds(ms)})`);
    if (!ok) print(`    ✖ ${test}${at === '' ? '' : ` (${at})`}\n${indented(error)}`);
  }
  for (const problem of problems) print(`    ✖ ${problem}`);
  if (failed && output !== '') print(`    what it printed last:\n${indented(output)}`);
}

function indented(text) {
  return text.replace(/^/gm, '      ');
}

/** Prints the files that took longest and used most: the place to look when a run is too long. */
export function printSlowest(results, sourceOf) {
  for (const [key, what] of [
    ['ms', 'took longest'],
    ['processorMs', 'used the processors most'],
  ]) {
    print(`\nfiles that ${what} (time, time of a processor):`);
    for (const result of results.toSorted((a, b) => b[key] - a[key]).slice(0, SLOWEST_SHOWN))
      print(`${seconds(result.ms).padStart(9)} ${seconds(result.processorMs).padStart(9)}  ${sourceOf(result.file)}`);
  }
  const sum = results.reduce((total, { processorMs }) => total + processorMs, 0);
  print(`all: ${seconds(sum)} of a processor, without shared parts`);
}

/** Writes each file's times into `file`: ms, ms of a processor, path. */
export function writeTimes(file, results, sourceOf) {
  const rows = results.map((result) => [result.ms, result.processorMs].map(Math.round).concat(sourceOf(result.file)));
  writeFileSync(file, rows.map((row) => `${row.join('\t')}\n`).join(''));
}

/** Prints the end of a run. Returns the exit code. The last line is the one that machines read. */
export function conclude({ results, repeated, problems, notes, isRequired }) {
  const tests = results.flatMap((result) => result.tests);
  const again = new Set(repeated.filter((result) => !hasFailed(result)).map(({ file }) => file));
  const failing = results.filter((result) => hasFailed(result) && !again.has(result.file));
  const failed = failing.flatMap(({ file, tests, problems }) => [
    ...tests.filter(({ ok }) => !ok).map(({ test, reason }) => `${test}: ${reason}`),
    ...problems.map((problem) => `${file}: ${problem}`),
  ]);
  const skipped = tests.filter(({ skip }) => skip !== undefined);
  if (skipped.length > 0) {
    print(`\n${skipped.length} skipped:`);
    for (const { test, skip } of skipped) print(`  ${test}: ${skip}`);
    if (isRequired) problems.push(`${skipped.length} tests were skipped, and TROUPE_TEST_REAL=required`);
  }
  print('');
  for (const result of results.filter(({ file }) => again.has(file))) {
    const first = result.tests.find(({ ok }) => !ok);
    print(
      `UNSTEADY: ${result.file} failed once, then passed alone: ${first?.test}: ${first?.reason ?? result.problems[0]}`,
    );
  }
  for (const note of notes) print(note);
  for (const problem of [...failed, ...problems]) print(`FAILED: ${problem}`);
  const passed = tests.length - skipped.length - failing.flatMap(({ tests }) => tests.filter(({ ok }) => !ok)).length;
  if (tests.length > 0 || problems.length > 0)
    print(`${passed} passed, ${failed.length + problems.length} failed, ${skipped.length} skipped`);
  return failed.length + problems.length === 0 ? 0 : 1;
}
