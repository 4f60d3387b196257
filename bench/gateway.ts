/**
 * What does the gateway cost beside nginx and haproxy, for requests, TLS, connections passed through, and memory?
 *
 * `npm run bench -- gateway [ROUNDS] [SECONDS] [ROW...]`: the gateway's listeners and routing on core 0, as nginx (one process) and
 * haproxy (one thread) are; wrk, our own load and the origin (nginx) on core 1. Everybody in turns, medians of the rounds, and ratios
 * of medians. A closed loop is bound by the slower core: the processor time of a request says what the proxy costs by itself. ROW: only rows that
 * begin so. The last two columns are the gateway with pipelining to the origin; its goal is 1.4 of nginx.
 */
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { get, type IncomingMessage } from 'node:http';
import { cpus, tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface, type Interface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import { dial, flow, idle, serveFlow, wrk } from './gateway/load.ts';
import { serveOurs } from './gateway/ours.ts';
import {
  nameOf,
  type Peer,
  pinned,
  startHaproxy,
  startNginxProxy,
  startOrigin,
  stop,
  TLS_HOST,
  writeCertificate,
} from './gateway/peers.ts';

const IDLE_CONNECTIONS = 5000;
const self = fileURLToPath(import.meta.url);
const counted = z.object({ count: z.number(), seconds: z.number() });

/** Samples of one row: by figure, by peer. */
type Figure = 'rate' | 'cpu' | 'p99';
interface Row {
  readonly name: string;
  readonly unit: string;
  /** One run against a peer: how much, of it per second, and its p99 if it has one. Undefined: the peer does not do this. */
  readonly run: (peer: Peer, seconds: number) => Promise<{ count: number; seconds: number; p99?: number }> | undefined;
  /** Of the rate, as the gateway's over the peer's. */
  readonly goal: { readonly peer: string; readonly ratio: number };
  /** Processor time is told for so many of the unit. */
  readonly cpuPer?: { readonly count: number; readonly unit: string };
}

const answered =
  (path: string): Row['run'] =>
  (peer, seconds) =>
    requests(`http://127.0.0.1:${peer.ports.http}${path}`, seconds);
const encrypted =
  (path: string): Row['run'] =>
  ({ ports: { https } }, seconds) =>
    https === 0 ? undefined : requests(`https://${TLS_HOST}:${https}${path}`, seconds, TLS_HOST);
async function requests(url: string, seconds: number, host: string | undefined = nameOf('http')) {
  const { requests: count, seconds: took, p99Ms } = await wrk(url, host, seconds);
  return { count, seconds: took, p99: p99Ms };
}

const ROWS: readonly Row[] = [
  { name: '200 B', unit: 'req/s', run: answered('/s'), goal: { peer: 'nginx', ratio: 1 } },
  { name: '10 KB', unit: 'req/s', run: answered('/l'), goal: { peer: 'nginx', ratio: 1 } },
  {
    name: 'TLS 200 B',
    unit: 'req/s',
    run: encrypted('/s'),
    goal: { peer: 'nginx', ratio: 0.8 },
  },
  {
    name: 'TLS 10 KB',
    unit: 'req/s',
    run: encrypted('/l'),
    goal: { peer: 'nginx', ratio: 0.8 },
  },
  {
    name: 'cache 200 B',
    unit: 'req/s',
    run: (peer, seconds) =>
      peer.ports.cache === 0 ? undefined : requests(`http://127.0.0.1:${peer.ports.cache}/cached/s`, seconds),
    goal: { peer: 'nginx', ratio: 1.3 },
  },
  {
    name: 'passed through',
    unit: 'MB/s',
    run: (peer, seconds) => child(peer, 'flow', seconds, 1e6),
    goal: { peer: 'haproxy', ratio: 1.8 },
    cpuPer: { count: 1000, unit: 'us/GB' },
  },
  {
    name: 'new, passed through',
    unit: 'conn/s',
    run: (peer, seconds) => child(peer, 'dial', seconds, 1),
    goal: { peer: 'haproxy', ratio: 0.8 },
  },
];

function child(peer: Peer, mode: 'flow' | 'dial', seconds: number, unit: number) {
  if (peer.ports.pass === 0) return undefined;
  const name = nameOf(mode === 'flow' ? 'flow' : 'once');
  return nextLine(node(1, [mode, String(peer.ports.pass), name, String(seconds)])).then((line) => {
    const { count, seconds: took } = counted.parse(line);
    return { count: count / unit, seconds: took };
  });
}

async function compare(rounds: number, seconds: number, only: readonly string[]): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'troupe-bench-'));
  const running: ChildProcess[] = [];
  const samples = new Map<string, number[]>();
  const key = (row: string, figure: Figure | 'idle', peer: string) => `${row}/${figure}/${peer}`;
  const add = (name: string, value: number) => samples.set(name, [...(samples.get(name) ?? []), value]);
  try {
    await writeCertificate(folder);
    const origin = await startOrigin(folder);
    running.push(origin.process);
    const source = node(1, ['source'], 'pipe');
    running.push(source);
    const origins = { http: origin.port, flow: z.object({ port: z.number() }).parse(await nextLine(source)).port };
    const peers: Peer[] = [];
    for (const start of [startNginxProxy, startHaproxy, startOurs, startPiped]) {
      const peer = await start(folder, origins);
      peers.push(peer);
      running.push(peer.process);
    }
    const wanted = ROWS.filter(({ name }) => only.length === 0 || only.some((start) => name.startsWith(start)));
    // Lets the compiler settle, and then counts memory, before anything has grown that connections could move into.
    for (const { run } of wanted.slice(0, 1)) for (const peer of peers) await run(peer, 1);
    if (only.length === 0 || only.includes('idle')) {
      for (const peer of peers) if (peer.name !== 'piped') add(key('idle', 'idle', peer.name), await idleBytes(peer));
    }
    // On a busy machine a second is too short for that: by count, within bounds.
    for (const { run } of wanted) {
      for (const peer of peers) {
        for (let [count, tries] = [0, 0]; count < 20_000 && tries < 4; tries++)
          count += (await run(peer, 1))?.count ?? Infinity;
      }
    }
    for (let round = 0; round < rounds; round++) {
      for (const { name, run, cpuPer } of wanted) {
        for (const peer of peers) {
          const before = cpuSeconds(peer.process);
          const result = await run(peer, seconds);
          if (result === undefined) continue;
          const used = cpuSeconds(peer.process) - before;
          add(key(name, 'rate', peer.name), result.count / result.seconds);
          add(key(name, 'cpu', peer.name), (used / result.count) * 1e6 * (cpuPer?.count ?? 1));
          if (result.p99 !== undefined) add(key(name, 'p99', peer.name), result.p99);
        }
      }
    }
  } finally {
    for (const server of running) await stop(server);
    await rm(folder, { recursive: true, force: true });
  }
  report((row, figure, peer) => median(samples.get(key(row, figure, peer))));
}

// ------------------------------------------------------------------------------------------------------- our own server

/** What is asked of the children, by their stdout. */
const lines = new WeakMap<ChildProcess, AsyncIterator<string>>();

/** The next line a child says, parsed. */
async function nextLine(of: ChildProcess): Promise<unknown> {
  let said = lines.get(of);
  if (said === undefined) {
    if (of.stdout === null) throw new Error('A child was started without stdout.');
    const reader: Interface = createInterface({ input: of.stdout });
    said = reader[Symbol.asyncIterator]();
    lines.set(of, said);
  }
  const { value, done } = await said.next();
  if (done === true) throw new Error('A child ended and said nothing.');
  return JSON.parse(value);
}

function node(core: number, args: string[], stdin: 'pipe' | 'ignore' = 'ignore'): ChildProcess {
  return pinned(core, process.execPath, [...process.execArgv, '--expose-gc', self, ...args], stdin);
}

async function startOurs(folder: string, origins: { http: number; flow: number }): Promise<Peer> {
  const server = node(0, ['ours', folder, String(origins.http), String(origins.flow)], 'pipe');
  const { http, https } = z.object({ http: z.number(), https: z.number() }).parse(await nextLine(server));
  return { name: 'ours', process: server, ports: { http, https, cache: await caches(http), pass: https } };
}

/** The same, with more than one request at a time on a connection to the origin. */
async function startPiped(folder: string, origins: { http: number; flow: number }): Promise<Peer> {
  const server = node(0, ['ours', folder, String(origins.http), String(origins.flow), 'piped'], 'pipe');
  const { http } = z.object({ http: z.number() }).parse(await nextLine(server));
  return { name: 'piped', process: server, ports: { http, https: 0, cache: 0, pass: 0 } };
}

/** The port, if the gateway answers from a cache there, else 0. */
async function caches(port: number): Promise<number> {
  // `fetch` sets the Host by the URL, whatever it is told.
  for (let again = 0; again < 3; again++) {
    const request = get({ ...{ host: '127.0.0.1', port, path: '/cached/s' }, headers: { host: nameOf('http') } });
    const [response]: IncomingMessage[] = await once(request, 'response');
    response?.resume();
    if (response !== undefined) await once(response, 'end');
    if (response?.headers.age !== undefined) return port;
  }
  return 0;
}

/** How much a server grows by each idle connection that has had one answer, in bytes. */
async function idleBytes(peer: Peer): Promise<number> {
  const request = `GET /s HTTP/1.1\r\nHost: ${nameOf('http')}\r\n\r\n`;
  const before = await settled(peer);
  const client = node(1, ['idle', String(peer.ports.http), request, String(IDLE_CONNECTIONS)], 'pipe');
  try {
    await nextLine(client);
    return ((await settled(peer)) - before) / IDLE_CONNECTIONS;
  } finally {
    await stop(client);
  }
}

/** Resident memory of a server once it has collected its garbage, in bytes. */
async function settled({ name, process: server }: Peer): Promise<number> {
  await delay(300);
  if (name === 'ours') {
    server.stdin?.write('gc\n');
    await nextLine(server);
  }
  const [, kb] = /VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${server.pid}/status`, 'utf8')) ?? [];
  return Number(kb) * 1024;
}

/** Processor time a process has used, all threads, in seconds (proc(5); a tick is 10 ms). */
function cpuSeconds(of: ChildProcess): number {
  const fields = readFileSync(`/proc/${of.pid}/stat`, 'utf8').split(') ').at(-1)?.split(' ') ?? [];
  return (Number(fields[11]) + Number(fields[12])) / 100;
}

// ------------------------------------------------------------------------------------------------------------ the report

const PEERS = ['nginx', 'haproxy', 'ours', 'piped'];

function report(of: (row: string, figure: Figure | 'idle', peer: string) => number): void {
  const text = (value: number, digits: number) => (Number.isNaN(value) ? '-' : value.toFixed(digits));
  const line = (...cells: string[]) =>
    process.stdout.write(`${cells.map((cell, i) => (i === 0 ? cell.padEnd(24) : cell.padStart(11))).join('')}\n`);
  const rows: object[] = [];
  const row = (name: string, unit: string, figure: Figure | 'idle', from: string, digits: number, goal = '') => {
    const [nginx = Number.NaN, haproxy = Number.NaN, ours = Number.NaN, piped = Number.NaN] = PEERS.map((peer) =>
      of(from, figure, peer),
    );
    if (Number.isNaN(ours)) return;
    const cells = [nginx, haproxy, ours].map((value) => text(value, digits));
    const pipes = [text(piped, digits), text(piped / nginx, 2)];
    line(name, unit, ...cells, text(ours / nginx, 2), text(ours / haproxy, 2), goal, ...pipes);
    rows.push({ row: name, unit, ours, nginx, haproxy, piped });
  };
  line('', 'unit', 'nginx', 'haproxy', 'ours', '/nginx', '/haproxy', 'goal', 'pipelined', '/nginx');
  for (const { name, unit, goal, cpuPer } of ROWS) {
    row(name, unit, 'rate', name, 0, `${goal.ratio} ${goal.peer}`);
    row('  processor time', cpuPer?.unit ?? 'us', 'cpu', name, 1);
    row('  p99', 'ms', 'p99', name, 2);
  }
  row('idle connection', 'bytes', 'idle', 'idle', 0, '2560 bytes');
  const machine = `${cpus()[0]?.model ?? 'unknown'} x${cpus().length}, node ${process.version}`;
  process.stdout.write(`${JSON.stringify({ bench: 'gateway', machine, rows })}\n`);
}

function median(values: readonly number[] = []): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}

const [mode = '3', ...args] = process.argv.slice(2);
if (mode === 'ours')
  await serveOurs(args[0] ?? '', { http: Number(args[1]), flow: Number(args[2]) }, args[3] === 'piped');
else if (mode === 'source') await serveFlow();
else if (mode === 'flow') await flow(Number(args[0]), args[1] ?? '', Number(args[2]));
else if (mode === 'dial') await dial(Number(args[0]), args[1] ?? '', Number(args[2]));
else if (mode === 'idle') await idle(Number(args[0]), args[1] ?? '', Number(args[2]));
else await compare(Number(mode), Number(args[0] ?? 1.5), args.slice(1));
