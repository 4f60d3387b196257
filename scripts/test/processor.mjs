/** How busy the machine's processors are. */
import { cpus } from 'node:os';

/** Over so long a time, ms: long enough for a test that starts a process, short beside a file. */
const SPAN_MS = 3000;

/**
 * Measures from now on. Returns `idle()`: which share of all processors had nothing to do in the last span, 0 to 1, or undefined before
 * the first span is over; and `stop()`.
 */
export function watchProcessors() {
  let before = totals();
  let idle;
  const timer = setInterval(() => {
    const now = totals();
    if (now.all > before.all) idle = (now.idle - before.idle) / (now.all - before.all);
    before = now;
  }, SPAN_MS);
  timer.unref();
  return { idle: () => idle, everyMs: SPAN_MS, stop: () => clearInterval(timer) };
}

function totals() {
  const times = cpus().map((cpu) => cpu.times);
  const idle = times.reduce((sum, time) => sum + time.idle, 0);
  return { idle, all: times.reduce((sum, time) => sum + Object.values(time).reduce((a, b) => a + b, 0), 0) };
}
