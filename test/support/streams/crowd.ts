/** Many who follow logs and type in terminals of one platform, while one terminal floods. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { WebSocket } from 'ws';
import type { Box } from '../clients/container.ts';
import { pause } from '../pause.ts';
import { until } from '../until.ts';

export interface CrowdOptions {
  readonly followers: number;
  /** The last of them floods. */
  readonly terminals: number;
  /** Of each phase. */
  readonly seconds: number;
}

/** What keys took in one phase, milliseconds from typing to echo. */
export interface EchoTimes {
  readonly echoes: number;
  readonly p50: number;
  readonly p99: number;
}

export interface CrowdReport {
  /** Nobody floods. */
  readonly calm: EchoTimes;
  /** The flood goes through the platform. */
  readonly flooded: EchoTimes;
  /** As many bytes a second past the platform, by SSH: what the machine's load alone does. */
  readonly paced: EchoTimes;
  /** The flood past the platform at full speed. */
  readonly beside: EchoTimes;
  /** The reader of the flood has stopped reading. */
  readonly stalled: EchoTimes;
  /** Memory of the platform's process, MB: before anybody came, and the most seen. */
  /** What the flood through the platform came to while the others typed, MB/s. */
  readonly floodMbPerSecond: number;
  /** Processor time of the platform's process, percent of one processor. */
  readonly cpuPercent: { readonly calm: number; readonly flooded: number };
  readonly memoryMb: { readonly before: number; readonly most: number };
}

const KEY_EVERY_MS = 200;
const FLOOD = 'stty -echo -onlcr; cat /dev/zero';

/** Three rounds of the five phases in turn, so that what else the machine does falls on all. */
export async function crowd(
  boxes: readonly Box[],
  token: string,
  platformPid: number,
  { followers, terminals, seconds }: CrowdOptions,
): Promise<CrowdReport> {
  const before = memoryMb(platformPid);
  let most = before;
  const watch = setInterval(() => {
    most = Math.max(most, memoryMb(platformPid));
  }, 200);
  const boxOf = (i: number): Box => boxes[i % boxes.length] as Box;
  const sockets: WebSocket[] = [];
  try {
    for (let i = 0; i < followers; i++) sockets.push(await open(`${boxOf(i).ws}/logs?token=${token}`));
    const typists: Typist[] = [];
    for (let i = 0; i < terminals - 1; i++) {
      const socket = await open(`${boxOf(i).ws}/terminal?token=${token}`);
      sockets.push(socket);
      typists.push(new Typist(socket));
      await typists.at(-1)?.ready();
    }
    const times = { calm: [], flooded: [], paced: [], beside: [], stalled: [] } as Record<string, number[]>;
    const cpu: Record<string, number[]> = { calm: [], flooded: [] };
    const phase = async (name: string): Promise<void> => {
      await pause(300, 'pace');
      const [used, begin] = [cpuMs(platformPid), performance.now()];
      times[name]?.push(...(await typeAll(typists, seconds * 1000)));
      cpu[name]?.push(((cpuMs(platformPid) - used) * 100) / (performance.now() - begin));
    };
    const rates: number[] = [];
    const [box] = boxes;
    if (box === undefined) throw new Error('a crowd needs a container');
    for (let round = 0; round < 3; round++) {
      await phase('calm');
      const through = platformFlood(box, token);
      const counted = countOf(through);
      await whileRunning(through, async () => {
        const [bytes, begin] = [counted(), performance.now()];
        await phase('flooded');
        rates.push((counted() - bytes) / 1e3 / (performance.now() - begin));
      });
      await whileRunning(pacedFlood(box, rates.at(-1) ?? 0), () => phase('paced'));
      await whileRunning(besideFlood(box), () => phase('beside'));
      const stalled = await open(`${box.ws}/terminal?token=${token}`);
      stalled.send(Buffer.from(`${FLOOD}\n`));
      stalled.pause();
      await phase('stalled');
      stalled.terminate();
    }
    const of = (name: string) => echoTimes(times[name] ?? []);
    return {
      ...{ calm: of('calm'), flooded: of('flooded'), paced: of('paced'), beside: of('beside'), stalled: of('stalled') },
      floodMbPerSecond: mean(rates),
      cpuPercent: { calm: mean(cpu.calm ?? []), flooded: mean(cpu.flooded ?? []) },
      memoryMb: { before, most },
    };
  } finally {
    clearInterval(watch);
    for (const socket of sockets) socket.terminate();
  }
}

/** Somebody who types into `cat` and waits for the echo of each key. */
class Typist {
  readonly #socket: WebSocket;
  #seen = '';
  #heard: () => void = () => {};

  constructor(socket: WebSocket) {
    this.#socket = socket;
    socket.on('message', (data: Buffer) => {
      this.#seen = (this.#seen + data.toString('latin1')).slice(-64);
      this.#heard();
    });
  }

  async ready(): Promise<void> {
    this.#socket.send(Buffer.from('PS1=; printf "re""ady"; exec cat\n'));
    await until(() => this.#seen.endsWith('ready'), { what: 'the terminal is ready' });
  }

  /** Milliseconds until the echo. */
  async key(): Promise<number> {
    const begin = performance.now();
    const echo = new Promise<void>((resolve) => {
      this.#heard = resolve;
    });
    this.#socket.send(Buffer.from('x'));
    await echo;
    const took = performance.now() - begin;
    this.#socket.send(Buffer.from('\x15')); // Takes the key back: a line has a limit.
    return took;
  }
}

async function typeAll(typists: readonly Typist[], ms: number): Promise<number[]> {
  const end = performance.now() + ms;
  const all = typists.map(async (typist, i) => {
    const times: number[] = [];
    await pause((i * KEY_EVERY_MS) / typists.length, 'pace');
    while (performance.now() < end) {
      times.push(await typist.key());
      await pause(KEY_EVERY_MS, 'pace');
    }
    return times;
  });
  return (await Promise.all(all)).flat();
}

async function open(url: string): Promise<WebSocket> {
  const socket = new WebSocket(url, { perMessageDeflate: false });
  await once(socket, 'open');
  socket.on('error', () => {});
  return socket;
}

/** The reader of a flood is a process of its own, so that it takes no time from the ones that measure. */
function platformFlood(box: Box, token: string): ChildProcess {
  const script = `
    const { WebSocket } = require('ws');
    const socket = new WebSocket(process.argv[1], { perMessageDeflate: false });
    socket.on('open', () => socket.send(Buffer.from(process.argv[2])));
    let bytes = 0;
    socket.on('message', (data) => (bytes += data.length));
    setInterval(() => process.stdout.write(bytes + '\\n'), 100);`;
  const args = ['-e', script, `${box.ws}/terminal?token=${token}`, `${FLOOD}\n`];
  return spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'ignore'] });
}

/** The bytes that a flood's reader has counted last. */
function countOf(reader: ChildProcess): () => number {
  let count = 0;
  reader.stdout?.on('data', (data: Buffer) => {
    count = Number(data.toString().trim().split('\n').at(-1));
  });
  return () => count;
}

function sshArguments({ keyFile, address }: Box): string[] {
  const options = ['StrictHostKeyChecking=no', 'UserKnownHostsFile=/dev/null', 'BatchMode=yes'];
  return ['-tt', '-i', keyFile, ...options.flatMap((option) => ['-o', option]), `root@${address}`, FLOOD];
}

function besideFlood(box: Box): ChildProcess {
  return spawn('ssh', sshArguments(box), { stdio: ['pipe', 'ignore', 'ignore'] });
}

/** The same, read no faster than so; the end of its reader ends it. */
function pacedFlood(box: Box, mbPerSecond: number): ChildProcess {
  const script = `
    const [rate, ...args] = process.argv.slice(1);
    const ssh = require('child_process').spawn('ssh', args, { stdio: ['pipe', 'pipe', 'ignore'] });
    const begin = performance.now();
    let bytes = 0;
    ssh.stdout.on('data', (data) => {
      bytes += data.length;
      const early = bytes / 1e3 / rate - (performance.now() - begin);
      if (early < 1) return;
      ssh.stdout.pause();
      setTimeout(() => ssh.stdout.resume(), early);
    });
    ssh.on('exit', () => process.exit(1));`;
  return spawn(process.execPath, ['-e', script, '--', String(mbPerSecond), ...sshArguments(box)], { stdio: 'ignore' });
}

async function whileRunning(child: ChildProcess, work: () => Promise<void>): Promise<void> {
  const exited = once(child, 'exit');
  try {
    await pause(500, 'slow peer');
    await work();
    if (child.exitCode !== null) throw new Error(`the flood ended by itself with ${child.exitCode}`);
  } finally {
    child.kill('SIGKILL');
    await exited;
  }
}

function echoTimes(times: readonly number[]): EchoTimes {
  const sorted = times.toSorted((a, b) => a - b);
  const at = (share: number) => Number((sorted[Math.floor(sorted.length * share)] ?? Number.NaN).toFixed(2));
  return { echoes: sorted.length, p50: at(0.5), p99: at(0.99) };
}

function memoryMb(pid: number): number {
  const rss = /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
  return Math.round(Number(rss) / 1024);
}

/** User and system time of a process; Linux counts in hundredths of a second there (proc(5)). */
function cpuMs(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[11]) + Number(fields[12])) * 10;
}

function mean(values: readonly number[]): number {
  return Number((values.reduce((sum, value) => sum + value, 0) / values.length).toFixed(2));
}
