/**
 * Loaded into each process of a test file by scripts/test.mjs: appends `{ file, processorMs }` to the file that
 * TROUPE_TEST_PROCESSOR_TIME names when the process ends. Counted are the process and all children that it has waited for, not the
 * shared parts. Linux only (proc(5), /proc/pid/stat, fields 14 to 17).
 */
import { appendFileSync, existsSync, readFileSync } from 'node:fs';

/** Linux tells these times in hundredths of a second on all platforms that Node supports. */
const TICK_MS = 10;

const results = process.env.TROUPE_TEST_PROCESSOR_TIME;
if (results !== undefined && process.env.NODE_TEST_CONTEXT !== undefined && existsSync('/proc/self/stat')) {
  process.on('exit', () => {
    // The second field is the program's name in brackets, and may hold blanks.
    const fields = readFileSync('/proc/self/stat', 'utf8').split(') ')[1].split(' ');
    const ticks = fields.slice(11, 15).reduce((sum, field) => sum + Number(field), 0);
    appendFileSync(results, `${JSON.stringify({ file: process.argv[1], processorMs: ticks * TICK_MS })}\n`);
  });
}
