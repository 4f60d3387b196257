/**
 * The reporter of node:test in a lane: sends the runner `{ test, at, ok, ms, skip, reason, error }` for each test that ended. `test` is its name
 * below its file, with the suites around it; `at` where it was declared; `reason` why it failed, on one line; `error` the whole.
 * `{ stray }` is an error that no test had.
 */
import { inspect } from 'node:util';

/** Of a failure, in characters. */
const REASON_SHOWN = 300;
const ERROR_SHOWN = 8000;

// biome-ignore lint/style/noDefaultExport: node:test takes a reporter by its default export.
// biome-ignore lint/correctness/useYield: it writes nothing, it sends.
export default async function* report(events) {
  const names = [];
  for await (const { type, data } of events) {
    if (type === 'test:start') names[data.nesting] = data.name;
    else if (type === 'test:diagnostic' && data.message.includes('asynchronous activity'))
      process.send?.({ stray: data.message });
    else if (type === 'test:pass' || type === 'test:fail') {
      tell(type === 'test:pass', data, names.slice(1, data.nesting));
      // The outermost suite is the file.
      if (data.nesting === 0) process.emit('troupe:suite-ended');
    }
  }
}

function tell(ok, { name, nesting, file, line, skip, todo, details }, suites) {
  const { error, type } = details;
  // What fails only because a test inside it did is not told of, and neither is a suite that went well. One that was
  // skipped stands for all that is in it.
  if ((ok && type === 'suite' && skip === undefined) || error?.failureType === 'subtestsFailed') return;
  const cause = error?.cause ?? error;
  process.send?.({
    test: nesting === 0 ? '(the hooks of the file)' : [...suites, name].join(' > '),
    // What a file declares at its top is declared by declared.mjs, as far as node:test can see: its error tells the place.
    at: file === undefined || file.endsWith('/declared.mjs') ? '' : `${file}:${line}`,
    ok,
    ms: details.duration_ms,
    ...(skip === undefined && todo === undefined ? {} : { skip: textOf(skip ?? todo) }),
    ...(ok ? {} : { reason: reasonOf(cause), error: inspect(cause).slice(0, ERROR_SHOWN) }),
  });
}

function textOf(skip) {
  return typeof skip === 'string' ? skip : 'no reason given';
}

/** What a failure says, on one line. */
function reasonOf(cause) {
  return String(cause?.message ?? cause)
    .replace(/\s+/g, ' ')
    .trim()
    .slice(0, REASON_SHOWN);
}
