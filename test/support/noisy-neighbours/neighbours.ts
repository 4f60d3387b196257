/** A third user of a platform whose other two clients do their worst (attack.ts): what login, keys and pages take, before and meanwhile. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { Agent, request } from 'node:https';
import { loadavg } from 'node:os';
import { createInterface } from 'node:readline';
import { WebSocket } from 'ws';
import { z } from 'zod';
import { pause } from '../pause.ts';
import { supportFile } from '../project.ts';
import type { Cleanup } from '../temp.ts';

export const attackSchema = z.object({
  port: z.number(),
  domain: z.string(),
  /** The tenant's. */
  token: z.string(),
  containerId: z.string(),
  tenant: z.array(z.string()),
  stranger: z.array(z.string()),
  /** How many of each from each address. */
  each: z.object({ upgrades: z.number(), logs: z.number(), bodies: z.number(), halves: z.number() }),
});
export type Attack = z.output<typeof attackSchema>;

/** What the attack holds open, of each kind, and how often it was refused. */
export const holdsSchema = z.object({
  upgrades: z.number(),
  logs: z.number(),
  bodies: z.number(),
  halves: z.number(),
  refused: z.number(),
});

export interface Times {
  readonly count: number;
  readonly failed: number;
  /** Of these, how many were answered with another status than 200. */
  readonly refused: number;
  /** Milliseconds, of those that did not fail. */
  readonly p50: number;
  readonly p99: number;
}

/** What the third user met in one phase. */
export interface Met {
  readonly login: Times;
  readonly page: Times;
  readonly echo: Times;
  readonly load: number;
}

/** The third user. */
export interface Third {
  readonly port: number;
  readonly domain: string;
  readonly username: string;
  readonly password: string;
  readonly token: string;
  readonly containerId: string;
}

const ADDRESS = '127.0.0.9';
const LONGEST_MS = 10_000;
const EVERY = { login: 500, page: 250, echo: 100 };

/** A process beside the platform. */
interface Beside {
  readonly pid: number;
  end(): Promise<void>;
}

/** Starts the two bad neighbours. `held`: what they hold open at the moment. */
export function attackers(t: Cleanup, attack: Attack): Beside & { held(): z.output<typeof holdsSchema> } {
  const { child, ...beside } = startBeside(t, 'attack', JSON.stringify(attack));
  let held = { upgrades: 0, logs: 0, bodies: 0, halves: 0, refused: 0 };
  createInterface({ input: child.stdout }).on('line', (line) => {
    held = holdsSchema.parse(JSON.parse(line));
  });
  return { ...beside, held: () => held };
}

/** Starts somebody who takes `share` of a processor and leaves the platform alone. */
export function idlers(t: Cleanup, share: number): Beside {
  return startBeside(t, 'idle', String(share));
}

function startBeside(t: Cleanup, name: string, argument: string) {
  const isCompiled = import.meta.url.endsWith('.js');
  const file = supportFile(`noisy-neighbours/${name}`);
  const child = spawn(process.execPath, [...(isCompiled ? [] : ['--import', 'tsx']), file, argument], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const exited = once(child, 'exit');
  const end = async () => {
    child.stdin.end();
    await exited;
  };
  t.after(end);
  return { child, pid: child.pid ?? 0, end };
}

/** Clock ticks of a second in /proc. */
const TICKS = 100;

/** Seconds of processor time that a process has had, all its threads together. */
export async function processorTime(pid: number): Promise<number> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8');
  // The name before may hold blanks.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[11]) + Number(fields[12])) / TICKS;
}

/** Does what the third user does for `seconds`. */
export async function measure(third: Third, seconds: number): Promise<Met> {
  const until = performance.now() + seconds * 1000;
  const typist = new Typist(third);
  const [login, page, echo] = await Promise.all([
    repeat(until, EVERY.login, () => logIn(third)),
    repeat(until, EVERY.page, () => loadPage(third)),
    repeat(until, EVERY.echo, () => typist.type()),
  ]);
  typist.close();
  return { login, page, echo, load: Number((loadavg()[0] ?? 0).toFixed(1)) };
}

/** It was answered, but not with 200. */
class Refused extends Error {}

async function repeat(until: number, everyMs: number, work: () => Promise<void>): Promise<Times> {
  const times: number[] = [];
  let failed = 0;
  let refused = 0;
  while (performance.now() < until) {
    const began = performance.now();
    try {
      await work();
      times.push(performance.now() - began);
    } catch (error) {
      failed++;
      if (error instanceof Refused) refused++;
    }
    await pause(Math.max(1, everyMs - (performance.now() - began)), 'pace');
  }
  times.sort((a, b) => a - b);
  const at = (part: number) =>
    Number((times[Math.min(times.length - 1, Math.floor(times.length * part))] ?? 0).toFixed(1));
  return { count: times.length + failed, failed, refused, p50: at(0.5), p99: at(0.99) };
}

/** A request over a connection of its own, or of `agent`. Rejects unless it is answered with 200. */
function ask(third: Third, service: string, path: string, body?: object, agent?: Agent): Promise<void> {
  const host = service === '' ? third.domain : `${service}.${third.domain}`;
  const own = agent ?? new Agent();
  const headers = { host, ...(body === undefined ? { authorization: `Bearer ${third.token}` } : {}) };
  return new Promise<void>((resolve, reject) => {
    const outgoing = request({
      ...{
        host: '127.0.0.1',
        port: third.port,
        path,
        method: body === undefined ? 'GET' : 'POST',
        headers,
        agent: own,
      },
      ...{ servername: host, rejectUnauthorized: false, localAddress: ADDRESS, timeout: LONGEST_MS },
    });
    outgoing.on('timeout', () => outgoing.destroy(new Error('too slow')));
    outgoing.on('error', reject);
    outgoing.on('response', (response) => {
      response.resume();
      response.on('error', reject);
      response.on('end', () =>
        response.statusCode === 200 ? resolve() : reject(new Refused(`${response.statusCode}`)),
      );
    });
    outgoing.end(body === undefined ? undefined : JSON.stringify(body));
  }).finally(() => {
    if (agent === undefined) own.destroy();
  });
}

function logIn(third: Third): Promise<void> {
  return ask(third, 'auth', '/api/login', { username: third.username, password: third.password });
}

/** The page and what it shows. */
async function loadPage(third: Third): Promise<void> {
  await ask(third, '', '/');
  await ask(third, 'compute', '/compute/containers');
}

/** Types into a terminal, and opens it again when it was lost. */
class Typist {
  readonly #third: Third;
  #socket: WebSocket | undefined;
  #seen = '';
  #heard: () => void = () => {};

  constructor(third: Third) {
    this.#third = third;
  }

  /** A key, and its echo. */
  async type(): Promise<void> {
    const socket = this.#socket ?? (await this.#open());
    const key = `${Math.floor(Math.random() * 1e9)}x`;
    const echoed = new Promise<void>((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error('no echo')), LONGEST_MS);
      this.#heard = () => {
        if (!this.#seen.includes(key)) return;
        clearTimeout(timer);
        resolve();
      };
      socket.once('close', () => {
        clearTimeout(timer);
        reject(new Error('closed'));
      });
    });
    this.#seen = '';
    socket.send(Buffer.from(key));
    await echoed;
    // Takes the keys back: a line has a limit.
    socket.send(Buffer.from('\x15'));
  }

  close(): void {
    this.#socket?.terminate();
  }

  /** A terminal in which a program runs that prints nothing. */
  async #open(): Promise<WebSocket> {
    const { port, domain, containerId, token } = this.#third;
    const host = `compute.${domain}`;
    const socket = new WebSocket(`wss://127.0.0.1:${port}/compute/containers/${containerId}/terminal?token=${token}`, {
      ...{ headers: { host }, servername: host, rejectUnauthorized: false, localAddress: ADDRESS },
      handshakeTimeout: LONGEST_MS,
    });
    socket.on('error', () => {});
    await Promise.race([once(socket, 'open'), once(socket, 'close').then(() => Promise.reject(new Error('closed')))]);
    socket.setMaxListeners(0);
    socket.on('close', () => {
      this.#socket = undefined;
    });
    socket.on('message', (data: Buffer) => {
      this.#seen = (this.#seen + data.toString('latin1')).slice(-256);
      this.#heard();
    });
    this.#socket = socket;
    // What echoes is the terminal, not a shell.
    this.#seen = '';
    const ready = new Promise<void>((resolve, reject) => {
      this.#heard = () => {
        if (this.#seen.includes('ready')) resolve();
      };
      socket.once('close', () => reject(new Error('closed')));
    });
    socket.send(Buffer.from('PS1=; printf "re""ady"; exec cat\n'));
    await ready;
    return socket;
  }
}
