/** The machine's processors and memory, beside what the kernel says of them. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { test } from 'node:test';
import { hostMetrics, processorLoad } from '../../transports/clients/host/metrics.ts';
import { skipUnless } from '../support/require.ts';
import { until } from '../support/until.ts';

const skip = skipUnless(process.platform === 'linux', 'needs /proc');

/** Processor time of the machine that was and was not idle, in ticks (proc(5), /proc/stat). */
function ticks(): { busy: number; idle: number } {
  const [, ...fields] = (readFileSync('/proc/stat', 'utf8').split('\n')[0] ?? '').split(/ +/);
  const [user = 0, nice = 0, system = 0, idle = 0, , irq = 0] = fields.map(Number);
  return { busy: user + nice + system + irq, idle };
}

test("the machine's load is what its processors did since it was last asked", { skip }, async (t) => {
  const burner = spawn(process.execPath, ['-e', 'for (;;);'], { stdio: 'ignore' });
  t.after(() => burner.kill('SIGKILL'));
  const load = processorLoad();
  const before = ticks();
  await until(() => ticks().busy > before.busy + 100, { timeoutMs: 60_000 });
  const shown = load();
  const after = ticks();
  const counted = (after.busy - before.busy) / (after.busy - before.busy + after.idle - before.idle);
  assert.ok(Math.abs(shown - counted) < 0.1, `shown ${shown}, counted ${counted}`);
  assert.ok(load() <= 1);
});

test("the machine's memory and processors are those the kernel names", { skip }, async () => {
  const source = hostMetrics({ name: 'box', paths: ['/'] });
  const { nodes } = await source.read(new AbortController().signal);
  const total = Number(/^MemTotal:\s+(\d+) kB/m.exec(readFileSync('/proc/meminfo', 'utf8'))?.[1]) * 1024;
  const [node] = nodes ?? [];
  assert.equal(node?.memoryCapacityBytes, total);
  assert.ok(node.memoryBytes > 0 && node.memoryBytes < total);
  assert.equal(node.cpuCapacityMillis, cpus().length * 1000);
  assert.ok(node.cpuMillis >= 0 && node.cpuMillis <= node.cpuCapacityMillis);
});
