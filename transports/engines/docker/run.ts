import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { isExecutable } from '../../../lib/executable.ts';

/** Where system programs are looked for; programs we start get this and no other PATH. */
export const SYSTEM_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

/** The path of an executable program of the system, or undefined. */
export function findProgram(name: string): string | undefined {
  return SYSTEM_PATH.split(':')
    .map((folder) => join(folder, name))
    .find(isExecutable);
}

/** Whether this process is root. */
export function isRoot(): boolean {
  return process.getuid?.() === 0;
}

/** How a program ended. `tail` holds the last lines of what it wrote. */
interface RunOutcome {
  readonly code: number | null;
  readonly tail: readonly string[];
}

/** Keeps the last lines of a text in pieces, and hands each on: at most `keep` lines of 1,000 characters. */
export class LineTail {
  readonly lines: string[] = [];
  #rest = '';
  readonly #keep: number;
  readonly #onLine: (line: string) => void;

  constructor(keep: number, onLine: (line: string) => void = () => undefined) {
    this.#keep = keep;
    this.#onLine = onLine;
  }

  readonly push = (text: string): void => {
    const parts = (this.#rest + text).split(/[\r\n]+/);
    this.#rest = (parts.pop() ?? '').slice(-1000);
    for (const part of parts) this.#add(part);
  };

  end(): void {
    this.#add(this.#rest);
    this.#rest = '';
  }

  #add(line: string): void {
    const text = line.trim().slice(0, 1000);
    if (text === '') return;
    this.lines.push(text);
    if (this.lines.length > this.#keep) this.lines.shift();
    this.#onLine(text);
  }
}

/** Runs a program to its end, both outputs as lines. Rejects when it cannot be started; aborting kills it. */
export function runProgram(
  program: string,
  args: readonly string[],
  options: { env?: Record<string, string>; onLine?: (line: string) => void; signal?: AbortSignal } = {},
): Promise<RunOutcome> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, {
      env: { PATH: SYSTEM_PATH, LC_ALL: 'C.UTF-8', ...options.env },
      stdio: ['ignore', 'pipe', 'pipe'],
      signal: options.signal,
    });
    const tail = new LineTail(30, options.onLine);
    child.stdout.setEncoding('utf8').on('data', tail.push);
    child.stderr.setEncoding('utf8').on('data', tail.push);
    child.once('error', reject);
    child.once('close', (code) => {
      tail.end();
      resolve({ code, tail: tail.lines });
    });
  });
}

/** Runs a script for sh(1) on Docker's machine; resolves with its exit code and the last thing it said. */
export type RunScript = (script: string) => Promise<{ code: number | null; said: string }>;

/** The two ways to run scripts on Docker's machine. */
export interface ScriptWays {
  /** On this machine, which may not be Docker's; undefined when this process may not. */
  readonly direct: RunScript | undefined;
  /** Through Docker. */
  readonly helper: RunScript;
}

/** Runs scripts on this machine as root; undefined when this process is not. */
export function rootScript(): RunScript | undefined {
  if (!isRoot()) return undefined;
  return async (script) => {
    const { code, tail } = await runProgram('/bin/sh', ['-c', script]);
    return { code, said: tail.at(-1) ?? '' };
  };
}
