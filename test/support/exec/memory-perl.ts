/** The memory engine's commands, with the perl of this machine for holders of commands. */
import { spawn } from 'node:child_process';
import type { MemoryCommand, MemoryEngine } from '../engine/memory-engine.ts';
import { memoryCommands } from '../engine/memory-shell.ts';

/** Runs perl on this machine, and all else as `memoryCommands` does. A folder for sockets is one of this machine. */
export function perlCommands(command: MemoryCommand, engine: MemoryEngine): void {
  const [program = '', ...args] = command.words;
  if (program !== 'perl') {
    memoryCommands(command, engine);
    return;
  }
  const { stdin, stdout, stderr } = command;
  const child = spawn(program, args, { stdio: 'pipe' });
  child.on('error', () => command.exit(127));
  child.stdin.on('error', () => {});
  stdin.pipe(child.stdin);
  child.stdout.on('error', () => {}).pipe(stdout, { end: false });
  child.stderr.on('error', () => {}).pipe(stderr, { end: false });
  child.once('close', (code) => command.exit(code ?? 129));
  const end = () => void child.kill('SIGKILL');
  command.onHangUp = end;
  stdout.once('close', end);
}
