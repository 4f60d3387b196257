/**
 * What do notifications cost: from the stream into rows, and from rows to sockets?
 *
 * `npm run bench -- notify [push|pipeline|all] [ROUNDS] [SOCKETS]`.
 * pipeline: 20,000 notifications to 1,000 users, on a PostgreSQL that syncs: through the embedded bus, which keeps its stream in the same
 * database; from a bus that costs nothing, which is what the service itself can do; and beside them bare inserts of the same columns by
 * batches of 500 on one connection, into the same table and into a plain one.
 * push: SOCKETS (10,000) sockets of SOCKETS / 5 users in one process, each sent every notification of its user, beside bare uWebSockets.js sending
 * texts of the same length. The server is held to core 0, the clients to core 1. Where the clients are the limit, the processor time of a message
 * tells more than the rate. Memory is that of the process, over what it has without connections.
 */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { createInterface, type Interface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import { clients } from './notify/clients.ts';
import { pipeline } from './notify/pipeline.ts';
import { serveBare, serveOurs } from './notify/servers.ts';

const self = fileURLToPath(import.meta.url);
const SECONDS = 3;
const ROUNDS_AT_ONCE = 8;

interface Row {
  readonly row: string;
  readonly unit: string;
  readonly ours: number;
  readonly peers: Readonly<Record<string, number>>;
}

/** A server with its clients. */
interface Pair {
  readonly server: ChildProcess;
  readonly serverLines: Interface;
  readonly load: ChildProcess;
  readonly loadLines: Interface;
  readonly memoryKb: number;
  readonly rates: number[];
  readonly micros: number[];
}

async function push(rounds: number, sockets: number): Promise<Row[]> {
  const pairs = { ours: await pair('serve-ours', sockets), bare: await pair('serve-bare', sockets) };
  try {
    for (const one of [...Object.values(pairs), ...Array(rounds).fill(Object.values(pairs)).flat()])
      await run(one, sockets);
  } finally {
    for (const { server, load } of Object.values(pairs)) {
      for (const child of [load, server]) {
        child.stdin?.end();
        if (child.exitCode === null) await once(child, 'exit');
      }
    }
  }
  // The first round of each let the compiler settle.
  const value = (of: (one: Pair) => number, digits: number) => ({
    ours: Number(of(pairs.ours).toFixed(digits)),
    peers: { bare: Number(of(pairs.bare).toFixed(digits)) },
  });
  return [
    { row: 'push', unit: 'messages/s', ...value(({ rates }) => median(rates.slice(1)), 0) },
    { row: 'push processor time', unit: 'us/message', ...value(({ micros }) => median(micros.slice(1)), 2) },
    { row: 'memory', unit: 'KB/socket', ...value(({ memoryKb }) => memoryKb, 2) },
  ];
}

async function pair(mode: string, sockets: number): Promise<Pair> {
  const server = pinned(0, [mode, String(sockets)]);
  const serverLines = createInterface({ input: server.stdout ?? process.stdin });
  const { port } = z.object({ port: z.number() }).parse(await answer(serverLines));
  const before = residentKb(server);
  const load = pinned(1, ['clients', String(port), String(sockets)]);
  const loadLines = createInterface({ input: load.stdout ?? process.stdin });
  z.object({ connected: z.literal(sockets) }).parse(await answer(loadLines));
  server.stdin?.write('collect\n');
  await answer(serverLines);
  const memoryKb = (residentKb(server) - before) / sockets;
  return { server, serverLines, load, loadLines, memoryKb, rates: [], micros: [] };
}

/** Sends to every socket, a few rounds at a time, so that what is on its way fits into the kernel's buffers. */
async function run(one: Pair, sockets: number): Promise<void> {
  const before = cpuSeconds(one.server);
  const began = performance.now();
  let messages = 0;
  while (performance.now() - began < SECONDS * 1000) {
    const arrived = answer(one.loadLines);
    one.load.stdin?.write(`expect ${ROUNDS_AT_ONCE * sockets}\n`);
    one.server.stdin?.write(`go ${ROUNDS_AT_ONCE}\n`);
    z.object({ got: z.literal(ROUNDS_AT_ONCE * sockets) }).parse(await arrived);
    messages += ROUNDS_AT_ONCE * sockets;
  }
  one.rates.push(messages / ((performance.now() - began) / 1000));
  one.micros.push(((cpuSeconds(one.server) - before) / messages) * 1e6);
}

/** Starts this file in a process of its own, on one core when taskset is there. Its stdin ends when we do. */
function pinned(core: number, childArgs: string[]): ChildProcess {
  const node = [process.execPath, '--expose-gc', ...process.execArgv, self, ...childArgs];
  const canPin = cpus().length > core && spawnSync('taskset', ['-c', String(core), 'true']).status === 0;
  const [program = '', ...rest] = canPin ? ['taskset', '-c', String(core), ...node] : node;
  return spawn(program, rest, { stdio: ['pipe', 'pipe', 'inherit'] });
}

async function answer(lines: Interface): Promise<unknown> {
  const [line] = await once(lines, 'line');
  return JSON.parse(String(line));
}

function cpuSeconds({ pid }: ChildProcess): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)?.split(' ') ?? [];
  return (Number(fields[11]) + Number(fields[12])) / 100;
}

function residentKb({ pid }: ChildProcess): number {
  return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]);
}

function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}

function report(rows: readonly Row[]): void {
  for (const { row, unit, ours, peers } of rows) {
    const beside = Object.entries(peers).map(
      ([name, value]) => `${name} ${value} (ours is ${(ours / value).toFixed(2)} of it)`,
    );
    process.stdout.write(`${row.padEnd(24)} ${String(ours).padStart(10)} ${unit.padEnd(12)} ${beside.join(', ')}\n`);
  }
  const machine = `${cpus()[0]?.model ?? 'unknown'} x${cpus().length}, node ${process.version}`;
  process.stdout.write(`${JSON.stringify({ bench: 'notify', machine, rows })}\n`);
}

const [mode = 'all', ...args] = process.argv.slice(2);
const [first = Number.NaN, second = Number.NaN] = args.map(Number);
if (mode === 'serve-ours') await serveOurs(first);
else if (mode === 'serve-bare') await serveBare();
else if (mode === 'clients') await clients(first, second);
else {
  const rounds = first || 5;
  const rows: Row[] = [];
  if (mode === 'pipeline' || mode === 'all') rows.push(...(await pipeline(rounds)));
  if (mode === 'push' || mode === 'all') rows.push(...(await push(rounds, second || 10_000)));
  report(rows);
}
