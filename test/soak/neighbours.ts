/**
 * Can bad neighbours take the platform away from others? `npm run soak -- neighbours [SECONDS] [PROGRAM]`: a tenant and a stranger with two addresses
 * each do their worst for SECONDS (300), and a third user's login, page and keys are measured before, meanwhile, and beside somebody who does nothing
 * to the platform but takes as much of the machine's processors as the two did themselves: on another machine they would not have taken that. It
 * fails when a p99 is twice that before, or something of the third user's fails. PROGRAM: the compiled cmd/main.js of another version.
 */
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { attackers, idlers, type Met, measure, processorTime } from '../support/noisy-neighbours/neighbours.ts';
import { neighbourhood } from '../support/noisy-neighbours/platform.ts';
import { pause } from '../support/pause.ts';

const seconds = Number(process.argv[2] ?? 300);
const other = process.argv[3];
const ends: (() => Promise<unknown> | unknown)[] = [];
const cleanup = { after: (end: () => unknown) => void ends.unshift(end) };
const folder = await mkdtemp(join(tmpdir(), 'troupe-soak-'));

/** Seconds of processor time in which somebody, whoever it was, had something to do, of all processors together. */
async function busyTime(): Promise<number> {
  const [user = 0, nice = 0, system = 0, , , irq = 0, softirq = 0, steal = 0] =
    (await readFile('/proc/stat', 'utf8')).split('\n', 1)[0]?.split(/ +/).slice(1).map(Number) ?? [];
  return (user + nice + system + irq + softirq + steal) / 100;
}

/** `work`, and how many processors each of `pids` took meanwhile; last, everybody on the machine. */
async function withShares<T>(pids: readonly number[], work: Promise<T>): Promise<[T, number[]]> {
  const look = () => Promise.all([...pids.map(processorTime), busyTime()]);
  const [begins, began] = [await look(), performance.now()];
  const done = await work;
  const passed = (performance.now() - began) / 1000;
  return [done, (await look()).map((end, i) => Number(((end - (begins[i] ?? 0)) / passed).toFixed(2)))];
}

/** Connections that found a listening socket's queue full, on the whole machine. */
async function overflows(): Promise<number> {
  const [names = '', values = ''] = (await readFile('/proc/net/netstat', 'utf8')).split('\n');
  return Number(values.split(' ')[names.split(' ').indexOf('ListenOverflows')]);
}

try {
  const { attack, third, pid } = await neighbourhood(cleanup, folder, other === undefined ? undefined : [other]);
  await measure(third, 5); // Warm.
  const quiet = Math.min(60, Math.max(20, seconds / 3));
  const [before, ofQuiet] = await withShares([pid], measure(third, quiet));
  const full = await overflows();
  const bad = attackers(cleanup, attack);
  await pause(Math.min(20_000, seconds * 250), 'fault');
  const [during, shares] = await withShares([pid, bad.pid], measure(third, seconds));
  const held = bad.held();
  await bad.end();
  const overflowed = (await overflows()) - full;
  // What they held is let go, and waits of theirs end.
  await pause(10_000, 'watch');
  const idle = idlers(cleanup, shares[1] ?? 0);
  await pause(1000, 'watch');
  const [beside, ofIdle] = await withShares([pid, idle.pid], measure(third, quiet));
  await idle.end();
  const ratio = (kind: 'login' | 'page' | 'echo', to: Met) => Number((during[kind].p99 / to[kind].p99).toFixed(2));
  const ratios = (to: Met) => ({ login: ratio('login', to), page: ratio('page', to), echo: ratio('echo', to) });
  const processors = { quiet: ofQuiet, meanwhile: shares, beside: ofIdle };
  const all = { before: ratios(before), beside: ratios(beside) };
  process.stdout.write(
    `${JSON.stringify({ seconds, before, during, beside, ratios: all, processors, overflowed, held })}\n`,
  );
  const failed = during.login.failed + during.page.failed + during.echo.failed;
  if (failed > 0 || Object.values(all.before).some((one) => one >= 2)) process.exitCode = 1;
} finally {
  for (const end of ends) await end();
  await rm(folder, { recursive: true, force: true });
}
