/** `Engine.run` on this machine: for holders of commands, without containers. */
import { type ChildProcess, spawn } from 'node:child_process';
import { PassThrough } from 'node:stream';
import type { Engine } from '../../../proto/ports/engine.ts';
import type { RunningCommand } from '../../../proto/ports/shell.ts';

/** What was begun, and hands that break it. */
export interface LocalCommands extends Pick<Engine, 'run'> {
  /** Connections that are there: processes of this machine. */
  readonly bridges: ReadonlySet<ChildProcess>;
  /** As when the platform, its machine or the engine dies: all connections are gone, without a word. */
  cut(): void;
}

/** Runs commands as this user. `env`: in place of the environment of this process. */
export function localCommands(env: NodeJS.ProcessEnv = process.env): LocalCommands {
  const bridges = new Set<ChildProcess>();
  return {
    bridges,
    cut() {
      for (const bridge of bridges) bridge.kill('SIGKILL');
    },
    async run(_id, [program = '', ...args]): Promise<RunningCommand> {
      const child = spawn('/bin/sh', ['-c', 'exec "$@"', 'sh', program, ...args], { stdio: 'pipe', env });
      bridges.add(child);
      let code: number | null = null;
      child.once('exit', (status) => {
        code = status;
        bridges.delete(child);
      });
      const outputs = [child.stdout, child.stderr].map((from) => from.on('error', () => {}).pipe(new PassThrough()));
      const [stdout = new PassThrough(), stderr = new PassThrough()] = outputs;
      child.stdin.on('error', () => {});
      const closed = outputs.map((output) => new Promise((resolve) => output.once('close', resolve)));
      return {
        stdin: child.stdin,
        stdout,
        stderr,
        ended: Promise.all(closed).then(() => ({ code, signal: null })),
        close() {
          child.kill('SIGHUP');
          for (const stream of [child.stdin, stdout, stderr]) stream.destroy();
        },
      };
    },
  };
}
