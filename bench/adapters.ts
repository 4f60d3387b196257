/**
 * What do requests, pushed messages and idle sockets cost on each HTTP adapter, and on bare uWebSockets.js?
 *
 * `npm run bench -- adapters [ROUNDS] [SECONDS] [SOCKETS]`. A constant answer of 200 bytes over 64 keep-alive connections, asked with the headers of
 * a browser; a text of 180 bytes for five sockets each to SOCKETS (5,000) sockets; and what a socket holds while nothing happens: objects of JavaScript and
 * the C heap. Servers run on core 0, clients on core 1, in turns, medians. Where the clients are the limit, the processor time tells more than the rate.
 */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { createInterface, type Interface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import { load } from './adapters/load.ts';
import { serveAdapter, serveBare } from './adapters/servers.ts';
import { nodeFor } from './adapters/uws-node.ts';
import { clients } from './push/clients.ts';

const self = fileURLToPath(import.meta.url);
const NAMES = ['own', 'uws', 'node', 'bare'] as const;
const ROUNDS_AT_ONCE = 4;

interface Server {
  readonly process: ChildProcess;
  readonly lines: Interface;
  readonly port: number;
  readonly requests: number[];
  readonly requestMicros: number[];
  readonly messages: number[];
  readonly messageMicros: number[];
  readonly kb: number[];
}

async function compare(rounds: number, seconds: number, sockets: number): Promise<void> {
  const servers = new Map<string, Server>();
  try {
    for (const name of NAMES) servers.set(name, await start(name));
    for (const server of servers.values()) await requests(server, 1);
    for (let round = 0; round < rounds; round++)
      for (const server of servers.values()) {
        const { rate, micros } = await requests(server, seconds);
        server.requests.push(rate);
        server.requestMicros.push(micros);
      }
    for (let round = 0; round < rounds; round++)
      for (const server of servers.values()) await pushes(server, seconds, sockets);
  } finally {
    for (const server of servers.values()) await end(server.process);
  }
  report(servers);
}

async function start(name: string): Promise<Server> {
  const child = pinned(0, ['serve', name]);
  const lines = createInterface({ input: child.stdout ?? process.stdin });
  const { port } = z.object({ port: z.number() }).parse(await answer(lines));
  return { process: child, lines, port, requests: [], requestMicros: [], messages: [], messageMicros: [], kb: [] };
}

async function requests({ process: server, port }: Server, seconds: number): Promise<{ rate: number; micros: number }> {
  const before = cpuSeconds(server);
  const child = pinned(1, ['load', String(port), String(seconds)]);
  const said = await answer(createInterface({ input: child.stdout ?? process.stdin }));
  const { count, took } = z.object({ count: z.number(), took: z.number() }).parse(said);
  await end(child);
  return { rate: count / took, micros: ((cpuSeconds(server) - before) / count) * 1e6 };
}

async function pushes(server: Server, seconds: number, sockets: number): Promise<void> {
  const before = await held(server);
  const child = pinned(1, ['clients', String(server.port), String(sockets)]);
  const lines = createInterface({ input: child.stdout ?? process.stdin });
  z.object({ connected: z.literal(sockets) }).parse(await answer(lines));
  server.kb.push(((await held(server)) - before) / sockets);
  const [began, cpu] = [performance.now(), cpuSeconds(server.process)];
  let messages = 0;
  while (performance.now() - began < seconds * 1000) {
    const arrived = answer(lines);
    child.stdin?.write(`expect ${ROUNDS_AT_ONCE * sockets}\n`);
    server.process.stdin?.write(`go ${ROUNDS_AT_ONCE}\n`);
    await arrived;
    messages += ROUNDS_AT_ONCE * sockets;
  }
  server.messages.push(messages / ((performance.now() - began) / 1000));
  server.messageMicros.push(((cpuSeconds(server.process) - cpu) / messages) * 1e6);
  await end(child);
}

/** What the server holds after a collection: JavaScript's objects, and what is resident of the heap that malloc grows, KB. */
async function held({ process: server, lines }: Server): Promise<number> {
  server.stdin?.write('collect\n');
  const { live } = z.object({ live: z.number() }).parse(await answer(lines));
  const [, heap = ''] = readFileSync(`/proc/${server.pid}/smaps`, 'utf8').split(/^.* \[heap\]$/m);
  return live / 1024 + Number(/^Rss:\s+(\d+)/m.exec(heap)?.[1]);
}

function pinned(core: number, childArgs: string[]): ChildProcess {
  const canPin = cpus().length > core && spawnSync('taskset', ['-c', String(core), 'true']).status === 0;
  const needsUws = childArgs[1] === 'uws' || childArgs[1] === 'bare';
  const node = [nodeFor(needsUws), '--expose-gc', ...process.execArgv, self, ...childArgs];
  const [program = '', ...rest] = canPin ? ['taskset', '-c', String(core), ...node] : node;
  return spawn(program, rest, { stdio: ['pipe', 'pipe', 'inherit'] });
}

async function end(child: ChildProcess): Promise<void> {
  child.stdin?.end();
  if (child.exitCode === null) await once(child, 'exit');
}

async function answer(lines: Interface): Promise<unknown> {
  const [line] = await once(lines, 'line');
  return JSON.parse(String(line));
}

function cpuSeconds({ pid }: ChildProcess): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)?.split(' ') ?? [];
  return (Number(fields[11]) + Number(fields[12])) / 100;
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}

function report(servers: ReadonlyMap<string, Server>): void {
  const row = (name: string, unit: string, digits: number, of: (server: Server) => number[]) => {
    const values = NAMES.map((who) => {
      const server = servers.get(who);
      return [who, Number((server === undefined ? Number.NaN : median(of(server))).toFixed(digits))] as const;
    });
    const { own = Number.NaN, uws = Number.NaN } = Object.fromEntries(values);
    const cells = values.map(([, value]) => String(value).padStart(10)).join('');
    process.stdout.write(`${name.padEnd(28)}${unit.padEnd(12)}${cells}${(own / uws).toFixed(2).padStart(12)}\n`);
    return { row: name, unit, ...Object.fromEntries(values) };
  };
  process.stdout.write(`${''.padEnd(40)}${NAMES.map((name) => name.padStart(10)).join('')}     own/uws\n`);
  const rows = [
    row('requests', '1/s', 0, (server) => server.requests),
    row('requests, processor time', 'us', 1, (server) => server.requestMicros),
    row('pushed messages', '1/s', 0, (server) => server.messages),
    row('pushed, processor time', 'us', 2, (server) => server.messageMicros),
    row('an idle socket', 'KB', 2, (server) => server.kb),
  ];
  const machine = `${cpus()[0]?.model ?? 'unknown'} x${cpus().length}, node ${process.version}`;
  process.stdout.write(`${JSON.stringify({ bench: 'adapters', machine, rows })}\n`);
}

const [mode = '', ...args] = process.argv.slice(2);
if (mode === 'serve') await (args[0] === 'bare' ? serveBare() : serveAdapter(args[0] ?? ''));
else if (mode === 'load') await load(Number(args[0]), Number(args[1]));
else if (mode === 'clients') await clients(() => Number(args[0]), Number(args[1]), 1, { path: async () => '/' });
else await compare(Number(mode) || 3, Number(args[0] ?? 2), Number(args[1] ?? 5000));
