/** README's two commands on a fresh machine: the platform of the first, to its end, and the tests of the second. */
import assert from 'node:assert/strict';
import type { ChildProcess } from 'node:child_process';
import { until } from '../until.ts';
import { commandsFor } from './blocks.ts';
import type { FreshMachine } from './machine.ts';

/** A command that runs on a machine. */
interface Running {
  readonly child: ChildProcess;
  /** All that it printed so far. */
  printed(): string;
  isOver(): boolean;
}

/** Begins a line of bash. */
export function begin(machine: FreshMachine, line: string): Running {
  const child = machine.spawn('bash', '-c', line);
  child.stdin?.end();
  let printed = '';
  let isOver = false;
  child.once('close', () => {
    isOver = true;
  });
  for (const stream of [child.stdout, child.stderr]) stream?.on('data', (chunk: Buffer) => (printed += chunk));
  return { child, printed: () => printed, isOver: () => isOver };
}

/** Runs a line of bash to its end, which has to be a good one unless `fails`, and resolves with what it printed. */
export async function toEnd(machine: FreshMachine, line: string, { timeoutMs = 300_000, fails = false } = {}) {
  const { child, printed, isOver } = begin(machine, line);
  await until(async () => isOver(), { what: line, timeoutMs }).catch((error: unknown) => {
    throw new Error(`${String(error)}\n${printed().slice(-3000)}`);
  });
  assert.equal(child.exitCode !== 0, fails, `${line}\n${printed().slice(-3000)}`);
  return printed();
}

/** The platform of the first command, and the password that it printed. */
export async function startPlatform(machine: FreshMachine, line = commandsFor('start')[0] ?? '') {
  const running = begin(machine, line);
  const { printed, isOver } = running;
  await until(async () => isOver() || printed().includes('Troupe is running.'), {
    what: 'npm start',
    timeoutMs: 600_000,
  });
  assert.ok(!isOver(), printed().slice(-3000));
  const password = /with the password {2}(\S+)/.exec(printed())?.[1] ?? '';
  assert.notEqual(password, '', printed().slice(-3000));
  return { ...running, password };
}

/** Ctrl-C: all processes of the command get it, and it ends when none of them has its output any more. */
export async function stopPlatform({ child, printed, isOver }: Running): Promise<void> {
  assert.ok(child.pid !== undefined);
  process.kill(-child.pid, 'SIGINT');
  await until(async () => isOver(), { what: 'the end after Ctrl-C', timeoutMs: 60_000 });
  assert.match(printed(), /"msg":"stopped"/, printed().slice(-3000));
}
