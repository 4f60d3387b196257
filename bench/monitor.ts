/**
 * What does a refresh of the cluster monitor cost with thousands who watch, and what each of them?
 *
 * `npm run bench -- monitor [ROUNDS] [STREAMS] [USERS]`. `troupe monitor` as it is run, on a real database and an engine that counts its calls, with STREAMS (5,000)
 * event streams and as many WebSockets of USERS (50) users, one container each; beside bare uWebSockets.js that sends the same bytes to as
 * many. The server is held to core 0, the clients to core 1; the two take turns, medians of ROUNDS (3).
 *
 * Memory is what all of them take over what half of them took, when the code is compiled and holes in the heaps are filled: objects that JavaScript holds
 * after a collection, the C heap of the process, and the kernel's part of a connection, which is the server's end of it. Together that is a client.
 * What is resident besides is printed, too: pages that V8 keeps for garbage to come, more or fewer by the moment.
 */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { cpus, tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface, type Interface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import { sessionTokens } from '../actors/auth/tokens/issue-tokens.ts';
import { newId } from '../proto/ids.ts';
import { insertUser } from '../storage/auth/users.ts';
import { setSetting } from '../storage/settings.ts';
import { startTestServer, testDatabase } from '../test/support/database/database.ts';
import { nodeFor } from './adapters/uws-node.ts';
import { serveBare } from './monitor/bare.ts';
import { clients } from './monitor/clients.ts';
import { type CountingEngine, countingEngine } from './monitor/engine.ts';
import { kernelKb, type Memory, memoryOf } from './monitor/memory.ts';

const self = fileURLToPath(import.meta.url);
const compiled = self.endsWith('.js');
const beside = (path: string) => fileURLToPath(new URL(`${path}.${compiled ? 'js' : 'ts'}`, import.meta.url));
const SECRET = 'not a secret: '.repeat(4);
const INSTALLATION = 'bench';
const REFRESH_MS = 1000;
/** Refreshes that one figure is taken over. */
const REFRESHES = 10;
/** How often the kernel's memory is looked at. */
const LOOKS = 20;
/** The part of the clients that is there before memory is measured. */
const FEW = 0.5;

/** What the two servers are compared in. */
interface Figures {
  /** Processor time of a refresh with one client of each kind, and with all, ms. */
  readonly idleMs: number;
  readonly fullMs: number;
  /** Of a client; `wholeKb` and `kernelKb` are NaN where the kernel's part may not be read. */
  readonly wholeKb: number;
  readonly ownKb: number;
  readonly liveKb: number;
  readonly nativeKb: number;
  readonly kernelKb: number;
  readonly residentKb: number;
  readonly callsWithOne: number;
  readonly callsWithAll: number;
}

/** A server that runs. */
interface Server {
  readonly child: ChildProcess;
  readonly lines: Interface;
  readonly port: number;
}

/** What both are run on. */
interface Setup {
  readonly env: Record<string, string>;
  readonly engine: CountingEngine;
  readonly tokens: readonly string[];
}

async function monitor(rounds: number, streams: number, users: number): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'troupe-bench-'));
  const postgres = await startTestServer();
  process.env.TROUPE_TEST_PG = postgres.socketDir;
  const database = await testDatabase();
  const people = Array.from({ length: users }, (_, index) => ({
    id: newId(),
    username: `user${index}`,
    isAdmin: false,
  }));
  const issue = sessionTokens(SECRET, 86_400, { now: Date.now });
  const tokens: string[] = [];
  for (const person of people) {
    await insertUser(database.db, { ...person, passwordHash: 'none' });
    tokens.push((await issue(person)).token);
  }
  await setSetting(database.db, 'installation', INSTALLATION);
  const socket = join(folder, 'engine.sock');
  const containers = people.map(({ id }) => ({ id: newId(), userId: id }));
  const engine = await countingEngine(socket, INSTALLATION, containers);
  const env = { DATABASE_URL: database.url, JWT_SECRET: SECRET, DOCKER_HOST: `unix://${socket}`, LOG_LEVEL: 'error' };
  const setup: Setup = { env, engine, tokens };
  const all: Record<'ours' | 'bare', Figures[]> = { ours: [], bare: [] };
  try {
    for (let round = 0; round < rounds; round++) {
      const [figures, sample] = await measure(setup, 'ours', streams, '');
      all.ours.push(figures);
      all.bare.push((await measure(setup, 'bare', streams, sample))[0]);
    }
  } finally {
    await engine.close();
    await database.close();
    await postgres.stop();
    await rm(folder, { recursive: true, force: true });
  }
  report(all, streams, users);
}

/** Starts a server, watches it with one client of each kind and with all, and ends it. Gives the text of one snapshot, too. */
async function measure(
  { env, engine, tokens }: Setup,
  who: 'ours' | 'bare',
  streams: number,
  sample: string,
): Promise<[Figures, string]> {
  const command = [beside('../cmd/main'), 'monitor', '-addr', '127.0.0.1:0', '-refresh', `${REFRESH_MS}ms`, '--json'];
  const child = pinned(0, who === 'ours' ? command : [self, 'serve-bare', sample], env);
  const lines = createInterface({ input: child.stdout ?? process.stdin });
  const { port } = z.object({ port: z.number() }).parse(await answer(lines));
  const server: Server = { child, lines, port };
  try {
    const one = await load(port, 1, tokens);
    const text = who === 'ours' ? await snapshot(port, tokens[0] ?? '') : sample;
    const idle = await refreshes(server, engine);
    const fewer = Math.max(2, Math.round(streams * FEW));
    const few = await load(port, fewer - 1, tokens);
    const before = await memory(server);
    const rest = await load(port, streams - fewer, tokens);
    const after = await memory(server);
    const got = async () => (await few.got()) + (await rest.got());
    const from = await got();
    const full = await refreshes(server, engine);
    const took = (await got()) - from;
    // A machine with other work to do skips snapshots, and then a refresh seems cheaper than it is.
    const whole = full.count * 2 * (streams - 1);
    if (took < whole * 0.9) throw new Error(`the clients got ${took} snapshots of ${whole}: this machine is too busy`);
    for (const clients of [rest, few, one]) await clients.end();
    const times = { idleMs: idle.cpuMs, fullMs: full.cpuMs, callsWithOne: idle.calls, callsWithAll: full.calls };
    return [{ ...times, ...perClient(before, after, 2 * (streams - fewer)) }, text];
  } finally {
    child.kill('SIGTERM');
    if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
  }
}

/** Processor time and engine calls of a refresh, as means of some. */
async function refreshes({ port, child }: Server, engine: CountingEngine) {
  const begun = await counted(port);
  while ((await counted(port)) === begun) await pause(REFRESH_MS / 20);
  // Half a refresh later none is under way: neither now nor at the end.
  await pause(REFRESH_MS / 2);
  const from = await counts(port, engine);
  const used = cpuMs(child);
  await pause(REFRESHES * REFRESH_MS);
  const usedMs = cpuMs(child) - used;
  const to = await counts(port, engine);
  const count = to.refreshes - from.refreshes;
  return { count, cpuMs: usedMs / count, calls: (to.calls - from.calls) / count };
}

/** Refreshes and engine calls of one moment. */
async function counts(port: number, engine: CountingEngine): Promise<{ refreshes: number; calls: number }> {
  for (;;) {
    const calls = engine.calls();
    const refreshes = await counted(port);
    await pause(REFRESH_MS / 10);
    if (engine.calls() === calls && (await counted(port)) === refreshes) return { refreshes, calls };
  }
}

async function counted(port: number): Promise<number> {
  const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
  return Number(/^troupe_monitor_refreshes_total (\S+)$/m.exec(text)?.[1]);
}

/** Processor time a process has used so far, all threads (to the nanosecond, where `ps` counts ticks of 10 ms). */
function cpuMs({ pid }: ChildProcess): number {
  const threads = readdirSync(`/proc/${pid}/task`);
  const used = threads.map((id) => Number(readFileSync(`/proc/${pid}/task/${id}/schedstat`, 'utf8').split(' ')[0]));
  return used.reduce((sum, ns) => sum + ns, 0) / 1e6;
}

async function memory({ child, lines }: Server): Promise<Memory> {
  const collected = answer(lines);
  child.kill('SIGUSR2');
  const { live } = z.object({ live: z.number() }).parse(await collected);
  const memory = memoryOf(child, live);
  // What is on its way belongs to no client: the least of a refresh counts.
  const looks = [memory.kernelKb];
  for (let look = 0; look < LOOKS; look++) {
    await pause(REFRESH_MS / LOOKS);
    looks.push(kernelKb());
  }
  return { ...memory, kernelKb: Math.min(...looks) };
}

function perClient(before: Memory, after: Memory, clients: number) {
  const of = (kb: (memory: Memory) => number) => (kb(after) - kb(before)) / clients;
  const liveKb = of((memory) => memory.liveKb);
  const nativeKb = of((memory) => memory.nativeKb);
  // Both ends of a connection are on this machine, and alike.
  const kernelKb = of((memory) => memory.kernelKb) / 2;
  const ownKb = liveKb + nativeKb;
  return {
    ...{ wholeKb: ownKb + kernelKb, ownKb, liveKb, nativeKb, kernelKb },
    residentKb: of((memory) => memory.residentKb),
  };
}

/** Clients in a process of their own; resolves when each has had its first snapshot. */
async function load(port: number, streams: number, tokens: readonly string[]) {
  const child = pinned(1, [self, 'clients', String(port), String(streams)], {});
  const lines = createInterface({ input: child.stdout ?? process.stdin });
  const counted = z.object({ got: z.number() });
  const connected = answer(lines);
  child.stdin?.write(`${JSON.stringify(tokens)}\n`);
  counted.parse(await connected);
  return {
    /** Snapshots they got so far. */
    got: async () => {
      const said = answer(lines);
      child.stdin?.write('\n');
      return counted.parse(await said).got;
    },
    end: async () => {
      child.stdin?.end();
      if (child.exitCode === null) await once(child, 'exit');
    },
  };
}

async function snapshot(port: number, token: string): Promise<string> {
  const response = await fetch(`http://127.0.0.1:${port}/pod-metrics`, {
    headers: { authorization: `Bearer ${token}` },
  });
  return response.text();
}

/** Starts a program of Node in a process of its own, on one core when taskset is there. */
function pinned(core: number, program: readonly string[], env: Record<string, string>): ChildProcess {
  const preload = ['--expose-gc', '--import', beside('./monitor/collect')];
  const node = [nodeFor(program.includes('serve-bare')), ...process.execArgv, ...preload, ...program];
  const canPin = cpus().length > core && spawnSync('taskset', ['-c', String(core), 'true']).status === 0;
  const [file = '', ...rest] = canPin ? ['taskset', '-c', String(core), ...node] : node;
  return spawn(file, rest, { stdio: ['pipe', 'pipe', 'inherit'], env: { ...process.env, ...env } });
}

async function answer(lines: Interface): Promise<unknown> {
  const [line] = await once(lines, 'line');
  return JSON.parse(String(line));
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}

function report(all: Readonly<Record<'ours' | 'bare', readonly Figures[]>>, streams: number, users: number): void {
  const row = (name: string, unit: string, of: (figures: Figures) => number) => ({
    ...{ row: name, unit, ours: Number(median(all.ours.map(of)).toFixed(2)) },
    peers: { bare: Number(median(all.bare.map(of)).toFixed(2)) },
  });
  const rows = [
    row('processor time of a refresh', 'ms', ({ fullMs }) => fullMs),
    row('the same with two clients', 'ms', ({ idleMs }) => idleMs),
    row('memory', 'KB/client', ({ wholeKb }) => wholeKb),
    row('  of it the kernel', 'KB/client', ({ kernelKb }) => kernelKb),
    row('  of it the process', 'KB/client', ({ ownKb }) => ownKb),
    row('    of it live JavaScript', 'KB/client', ({ liveKb }) => liveKb),
    row('    of it the C heap', 'KB/client', ({ nativeKb }) => nativeKb),
    row("resident, with V8's room", 'KB/client', ({ residentKb }) => residentKb),
  ];
  for (const { row: name, unit, ours, peers } of rows) {
    const ratio = (ours / peers.bare).toFixed(2);
    const line = Number.isNaN(ours)
      ? 'not known: /proc/slabinfo is for root alone'
      : `${String(ours).padStart(10)} ${unit.padEnd(10)} bare ${peers.bare} (ours is ${ratio} of it)`;
    process.stdout.write(`${name.padEnd(30)} ${line}\n`);
  }
  const calls = {
    withTwo: median(all.ours.map(({ callsWithOne }) => callsWithOne)),
    withAll: median(all.ours.map(({ callsWithAll }) => callsWithAll)),
  };
  process.stdout.write(
    `engine calls of a refresh      ${calls.withTwo} with 2 clients, ${calls.withAll} with ${2 * streams}\n`,
  );
  const machine = `${cpus()[0]?.model ?? 'unknown'} x${cpus().length}, node ${process.version}`;
  process.stdout.write(
    `${JSON.stringify({ bench: 'monitor', machine, streams, sockets: streams, users, rows, calls })}\n`,
  );
}

const [mode = '', ...args] = process.argv.slice(2);
const [first = '', second = ''] = args;
if (mode === 'serve-bare') await serveBare(REFRESH_MS, first);
else if (mode === 'clients') await clients(Number(first), Number(second));
else await monitor(Number(mode) || 3, Number(first) || 5000, Number(second) || 50);
