/** One process of a cluster under test: the real command line at a place of its own, which can be killed, frozen and started again. */

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { z } from 'zod';
import { standsStill } from '../process-state.ts';
import { programArguments } from '../program.ts';
import { until } from '../until.ts';
import type { Cut, Place } from './network.ts';
import { firstLine } from './platform.ts';

/** Lines of the log that are kept. */
const MAX_LOG = 4 << 20;
const START_MS = 120_000;
const STOP_MS = 60_000;

/** What is run: `troupe <args>`, which prints one line of JSON once it serves. */
export interface Program {
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** More arguments of node: a test may plant a bug. */
  readonly nodeArgs?: readonly string[];
}

/** A place and whatever runs there. */
export class Member {
  /** 1 and up. */
  readonly number: number;
  readonly address: string;
  /** `http://<address>:<port>` of what it serves. */
  readonly url: string;
  readonly #place: Place;
  readonly #program: Program;
  #child: ChildProcess | undefined;
  #log = '';
  #isFrozen = false;
  #isCut = false;

  constructor(number: number, place: Place, port: number, program: Program) {
    this.number = number;
    this.address = place.address;
    this.url = `http://${place.address}:${port}`;
    this.#place = place;
    this.#program = program;
  }

  get pid(): number | undefined {
    return this.#child?.pid;
  }

  /** It runs, and nothing was done to it. */
  get isWell(): boolean {
    return this.#child !== undefined && !this.#isFrozen && !this.#isCut;
  }

  /** What all of its processes wrote to standard error, the newest part. */
  get log(): string {
    return this.#log;
  }

  /** Starts a process; resolves once it serves. Rejects with its log when it ends before. `more`: arguments of node that only this process gets. */
  async start(...more: readonly string[]): Promise<void> {
    if (this.#child !== undefined) throw new Error(`member ${this.number} runs already`);
    const [enter = '', ...rest] = this.#place.enter;
    const { args, env, nodeArgs = [] } = this.#program;
    const command = [...rest, '--', process.execPath, ...programArguments([...nodeArgs, ...more]), ...args];
    const child = spawn(enter, command, {
      env: { CHANGES_PER_MINUTE: '100000', ...process.env, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.#child = child;
    child.stderr.on('data', (chunk: Buffer) => {
      this.#log = `${this.#log}${chunk}`.slice(-MAX_LOG);
    });
    child.once('close', () => {
      if (this.#child === child) this.#child = undefined;
    });
    const first = await firstLine(child, START_MS);
    if (first === undefined || !ready(first)) {
      await this.kill();
      throw new Error(`member ${this.number} did not come up:\n${this.#log.slice(-4000)}`);
    }
  }

  /** Resolves with the exit code once the process has ended by itself; null when a signal ended it, undefined when none runs. */
  async ended(): Promise<number | null | undefined> {
    const child = this.#child;
    if (child === undefined) return undefined;
    if (child.exitCode === null && child.signalCode === null) await once(child, 'close');
    return child.exitCode;
  }

  /** SIGKILL; resolves once it is gone. */
  async kill(): Promise<void> {
    await this.#end('SIGKILL');
  }

  /** SIGTERM; resolves with its exit code once it is gone. */
  async stop(): Promise<number | null> {
    return this.#end('SIGTERM');
  }

  /** SIGSTOP; resolves once all of its threads stand still. */
  async freeze(): Promise<void> {
    this.#isFrozen = true;
    this.#child?.kill('SIGSTOP');
    await until(() => this.#child === undefined || standsStill(this.#child.pid), { what: 'the process stands still' });
  }

  /** SIGCONT. */
  thaw(): void {
    this.#isFrozen = false;
    this.#child?.kill('SIGCONT');
  }

  /** Loses these packets of it until `heal`. */
  async cut(...cuts: readonly Cut[]): Promise<void> {
    this.#isCut = true;
    await this.#place.cut(cuts);
  }

  async heal(): Promise<void> {
    await this.#place.cut([]);
    this.#isCut = false;
  }

  async #end(signal: 'SIGTERM' | 'SIGKILL'): Promise<number | null> {
    const child = this.#child;
    if (child === undefined) return null;
    this.#isFrozen = false;
    const ended = once(child, 'close');
    child.kill(signal);
    const timer = setTimeout(() => child.kill('SIGKILL'), STOP_MS);
    const [code] = await ended;
    clearTimeout(timer);
    this.#child = undefined;
    return typeof code === 'number' ? code : null;
  }
}

function ready(line: string): boolean {
  return z.object({ ready: z.literal(true) }).safeParse(JSON.parse(line)).success;
}
