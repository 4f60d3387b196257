/**
 * What do sockets cost that hear of notifications: memory of each, and processor time of each message?
 *
 * `npm run bench -- push [ROUNDS] [SOCKETS] [SOCKETS A USER]`. SOCKETS (10,000) sockets in one process, five to a user, each sent every
 * notification of its user through the service's actors, beside bare uWebSockets.js sending texts of the same length. The server is held to core 0,
 * the clients to core 1. Where the clients are the limit, the processor time of a message tells more than the rate. Memory is what the process uses
 * over what it used without connections: objects that JavaScript holds, and the C heap, where uWebSockets.js has its own. Pages that V8 keeps for
 * garbage to come are not counted: they are as many with connections as without, and come and go with its collections.
 *
 * Then all of it together (nats-server, PostgreSQL, the service with its API): how long does a notification take from its publisher to the sockets
 * of its user, at a steady pace?
 */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { createInterface, type Interface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import { findProgram } from '../test/support/require.ts';
import { nodeFor } from './adapters/uws-node.ts';
import { clients } from './push/clients.ts';
import { serveBare, serveOurs } from './push/servers.ts';
import { publishAll, serveWhole, socketPath, timeOfDay } from './push/whole.ts';

const self = fileURLToPath(import.meta.url);
const SECONDS = 3;
const ROUNDS_AT_ONCE = 8;
/** Frames a second of the steady paces, and how long each is kept, s. */
const PACES = [2000, 20_000];
const PACE_SECONDS = 5;

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
  readonly nativeKb: number;
  readonly liveKb: number;
  readonly rates: number[];
  readonly micros: number[];
}

async function push(rounds: number, sockets: number, perUser: number): Promise<Row[]> {
  const pairs = { ours: await pair('serve-ours', sockets, perUser), bare: await pair('serve-bare', sockets, perUser) };
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
    { row: 'memory', unit: 'KB/socket', ...value(({ liveKb, nativeKb }) => liveKb + nativeKb, 2) },
    { row: 'of it JavaScript', unit: 'KB/socket', ...value(({ liveKb }) => liveKb, 2) },
    { row: 'of it the C heap', unit: 'KB/socket', ...value(({ nativeKb }) => nativeKb, 2) },
  ];
}

async function pair(mode: string, sockets: number, perUser: number): Promise<Pair> {
  const server = pinned(0, [mode, String(sockets), String(perUser)]);
  const serverLines = createInterface({ input: server.stdout ?? process.stdin });
  const { port } = z.object({ port: z.number() }).parse(await answer(serverLines));
  const connected = async () => {
    const load = pinned(1, ['clients', String(port), String(sockets), String(perUser)]);
    const loadLines = createInterface({ input: load.stdout ?? process.stdin });
    z.object({ connected: z.literal(sockets) }).parse(await answer(loadLines));
    return { load, loadLines };
  };
  const collected = async () => {
    server.stdin?.write('collect\n');
    const { live } = z.object({ live: z.number() }).parse(await answer(serverLines));
    return { live: live / 1024, native: cHeapKb(server) };
  };
  const before = await collected();
  const { load, loadLines } = await connected();
  const after = await collected();
  const nativeKb = (after.native - before.native) / sockets;
  const liveKb = (after.live - before.live) / sockets;
  return { server, serverLines, load, loadLines, nativeKb, liveKb, rates: [], micros: [] };
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

/** Starts this file in a process of its own, on one core when taskset is there. */
function pinned(core: number, childArgs: string[]): ChildProcess {
  const canPin = cpus().length > core && spawnSync('taskset', ['-c', String(core), 'true']).status === 0;
  return child(canPin ? ['taskset', '-c', String(core)] : [], childArgs);
}

/** Starts this file in a process of its own. Its stdin ends when we do. */
function child(before: string[], childArgs: string[]): ChildProcess {
  const node = [nodeFor(childArgs[0] === 'bare'), '--expose-gc', ...process.execArgv, self, ...childArgs];
  const [program = '', ...rest] = [...before, ...node];
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

/** What is resident of the heap that malloc grows (proc(5), smaps). */
function cHeapKb({ pid }: ChildProcess): number {
  const [, heap = ''] = readFileSync(`/proc/${pid}/smaps`, 'utf8').split(/^.* \[heap\]$/m);
  return Number(/^Rss:\s+(\d+)/m.exec(heap)?.[1]);
}

/** From publisher to socket through all of it, at steady paces. */
async function latencies(sockets: number, perUser: number): Promise<Row[]> {
  if (findProgram('nats-server') === undefined) return [];
  const users = sockets / perUser;
  const server = child([], ['serve-whole', String(users)]);
  const load: ChildProcess[] = [];
  try {
    const lines = createInterface({ input: server.stdout ?? process.stdin });
    const { port, nats } = z.object({ port: z.number(), nats: z.string() }).parse(await answer(lines));
    const clients = child([], ['clients-whole', String(port), String(sockets), String(perUser)]);
    load.push(clients);
    const loadLines = createInterface({ input: clients.stdout ?? process.stdin });
    z.object({ connected: z.literal(sockets) }).parse(await answer(loadLines));
    const rows: Row[] = [];
    // The first is to settle the compiler.
    for (const pace of [PACES[0] ?? 0, ...PACES]) {
      const frames = pace * PACE_SECONDS;
      const arrived = answer(loadLines);
      clients.stdin?.write(`expect ${frames}\n`);
      await publishAll(nats, users, pace / perUser, PACE_SECONDS);
      const { p50, p99 } = z.object({ p50: z.number(), p99: z.number() }).parse(await arrived);
      const of = (name: string, ms: number) => ({
        row: `${name}, ${pace} messages/s`,
        unit: 'ms',
        ours: Number(ms.toFixed(1)),
        peers: {},
      });
      rows.push(of('publish -> socket p50', p50), of('publish -> socket p99', p99));
    }
    return rows.slice(2);
  } finally {
    for (const one of [...load, server]) {
      one.stdin?.end();
      if (one.exitCode === null) await once(one, 'exit');
    }
  }
}

function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}

function report(rows: readonly Row[]): void {
  for (const { row, unit, ours, peers } of rows) {
    const beside = Object.entries(peers).map(
      ([name, value]) => `${name} ${value} (ours is ${(ours / Number(value)).toFixed(2)} of it)`,
    );
    process.stdout.write(`${row.padEnd(40)} ${String(ours).padStart(10)} ${unit.padEnd(12)} ${beside.join(', ')}\n`);
  }
  const machine = `${cpus()[0]?.model ?? 'unknown'} x${cpus().length}, node ${process.version}`;
  process.stdout.write(`${JSON.stringify({ bench: 'push', machine, rows })}\n`);
}

const [mode = '', ...args] = process.argv.slice(2);
const [first = 0, second = 0, third = 0] = args.map(Number);
if (mode === 'serve-ours') await serveOurs(first, second);
else if (mode === 'serve-bare') await serveBare();
else if (mode === 'serve-whole') await serveWhole(first);
else if (mode === 'clients') await clients(() => first, second, third, { path: async (index) => `/ws/${index}` });
else if (mode === 'clients-whole') await clients(() => first, second, third, { path: socketPath, now: timeOfDay });
else {
  const [rounds, sockets, perUser] = [Number(mode) || 5, first || 10_000, second || 5];
  report([...(await push(rounds, sockets, perUser)), ...(await latencies(sockets, perUser))]);
}
