/**
 * A reporter of node:test for scripts/test.mjs: a line of JSON for each thing that it says of a run.
 *
 * `{ summary }`: a line such as `tests 12`. `{ skipped, reason }` and `{ failed, file, reason }`: a test's name, without tests that
 * failed only because one inside them did; why, on one line. `{ file, ms }`: what the outermost tests of a file took together.
 */
// biome-ignore lint/style/noDefaultExport: node:test takes a reporter by its default export.
export default async function* results(events) {
  const files = new Map();
  for await (const { type, data } of events) {
    if (type === 'test:diagnostic' && data.nesting === 0 && SUMMARY.test(data.message))
      yield line({ summary: data.message });
    if (type !== 'test:pass' && type !== 'test:fail') continue;
    const { name, nesting, file = '', skip, details } = data;
    if (skip) yield line({ skipped: name, reason: skip === true ? 'no reason given' : skip });
    if (type === 'test:fail' && details.error?.failureType !== 'subtestsFailed')
      yield line({ failed: name, file, reason: reasonOf(details.error) });
    if (nesting === 0) files.set(file, (files.get(file) ?? 0) + details.duration_ms);
  }
  for (const [file, ms] of files) yield line({ file, ms: Math.round(ms) });
}

const SUMMARY = /^(tests|suites|pass|fail|cancelled|skipped|todo|duration_ms) [\d.]+$/;
/** Of a reason, in characters. */
const REASON_SHOWN = 300;

/** What a failure says, on one line. */
function reasonOf(error) {
  const cause = error?.cause ?? error;
  return String(cause?.message ?? cause)
    .replace(/\s+/g, ' ')
    .trim()
    .slice(0, REASON_SHOWN);
}

function line(result) {
  return `${JSON.stringify(result)}\n`;
}
