/**
 * What does the platform cost per HTTP request, beside a bare server of the same library that answers a constant?
 *
 * `npm run bench -- http [ROUNDS] [SECONDS]`: `GET /api/session` of a real auth service (bearer token, actors, database) on
 * all adapters, and the same bytes from bare uWebSockets.js and node:http (for Troupe's own server: its adapter alone). Servers run on core 0, the load on core 1: 64
 * keep-alive connections without pipelining, measured in turns, medians. The load is one process too and has a ceiling:
 * where a rate comes near it, the processor time of a request tells more.
 */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { connect } from 'node:net';
import { cpus } from 'node:os';
import { createInterface } from 'node:readline';
import { createSecureContext } from 'node:tls';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import type { Engine } from '../proto/ports/engine.ts';
import { nodeFor } from './adapters/uws-node.ts';

const CONNECTIONS = 64;
const PASSWORD = 'correct horse battery';
const self = fileURLToPath(import.meta.url);

const serving = z.object({ port: z.number(), request: z.string() });
const measured = z.object({ requests: z.number(), seconds: z.number() });
type Serving = z.infer<typeof serving>;

/** A server under test, in a process of its own. */
interface Server extends Serving {
  readonly process: ChildProcess;
  readonly rates: number[];
  readonly cpuMicros: number[];
}

// ------------------------------------------------------------------------------------------------- the one that measures

async function compare(rounds: number, seconds: number): Promise<void> {
  const { startTestServer } = await import('../test/support/database/database.ts');
  const database = await startTestServer();
  const servers = new Map<string, Server>();
  const start = async (name: string, ...serverArgs: string[]) => {
    const child = pinned(0, [name.split(' ')[0] ?? '', ...serverArgs], { TROUPE_TEST_PG: database.socketDir });
    const answer = serving.parse(await firstLine(child));
    servers.set(name, { ...answer, process: child, rates: [], cpuMicros: [] });
    return answer;
  };
  try {
    for (const library of ['own', 'uws', 'node']) {
      const { port, request } = await start(`ours ${library}`, library);
      await start(`bare ${library}`, library, request, await bodyOf(port, request));
    }
    for (const server of servers.values()) await run(server, 1); // Lets the compiler settle.
    for (let round = 0; round < rounds; round++) {
      for (const server of servers.values()) {
        const before = cpuSeconds(server.process);
        const { requests, seconds: took } = await run(server, seconds);
        server.rates.push(requests / took);
        server.cpuMicros.push(((cpuSeconds(server.process) - before) / requests) * 1e6);
      }
    }
  } finally {
    for (const { process: child } of servers.values()) {
      child.stdin?.end();
      await exited(child);
    }
    await database.stop();
  }
  report(servers);
}

async function run({ port, request }: Serving, seconds: number): Promise<z.infer<typeof measured>> {
  const child = pinned(1, ['load', JSON.stringify({ port, request }), String(seconds)]);
  const result = measured.parse(await firstLine(child));
  await exited(child);
  return result;
}

/** Starts this file in a process of its own, on one core when taskset is there. Its stdin ends when we do. */
function pinned(core: number, childArgs: string[], env: Record<string, string> = {}): ChildProcess {
  const node = [nodeFor(childArgs.includes('uws')), ...process.execArgv, self, ...childArgs];
  const [program = '', ...rest] = canPin(core) ? ['taskset', '-c', String(core), ...node] : node;
  return spawn(program, rest, { stdio: ['pipe', 'pipe', 'inherit'], env: { ...process.env, ...env } });
}

function canPin(core: number): boolean {
  return cpus().length > core && spawnSync('taskset', ['-c', String(core), 'true']).status === 0;
}

async function firstLine(child: ChildProcess): Promise<unknown> {
  if (child.stdout === null) throw new Error('A child was started without stdout.');
  for await (const line of createInterface({ input: child.stdout })) return JSON.parse(line);
  throw new Error(`A child ended with ${child.exitCode ?? child.signalCode} and said nothing.`);
}

async function exited(child: ChildProcess): Promise<void> {
  if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
}

/** Processor time a process has used, all threads, in seconds (proc(5); a tick is 10 ms). NaN elsewhere. */
function cpuSeconds(child: ChildProcess): number {
  try {
    const fields = readFileSync(`/proc/${child.pid}/stat`, 'utf8').split(') ').at(-1)?.split(' ') ?? [];
    return (Number(fields[11]) + Number(fields[12])) / 100;
  } catch {
    return Number.NaN;
  }
}

async function bodyOf(port: number, request: string): Promise<string> {
  const authorization = /authorization: (.*)\r\n/.exec(request)?.[1] ?? '';
  const response = await fetch(`http://127.0.0.1:${port}/api/session`, { headers: { authorization } });
  if (!response.ok) throw new Error(`/api/session answers ${response.status}: ${await response.text()}`);
  return response.text();
}

function report(servers: ReadonlyMap<string, Server>): void {
  const row = (library: string, name: string, unit: string, of: (server: Server) => number[], digits: number) => {
    const value = (who: string) => Number(median(servers.get(`${who} ${library}`), of).toFixed(digits));
    return { row: name, unit, ours: value('ours'), peers: { bare: value('bare') } };
  };
  const rows = ['own', 'uws', 'node'].flatMap((library) => [
    row(library, library, 'req/s', (server) => server.rates, 0),
    row(library, `${library} processor time`, 'us/req', (server) => server.cpuMicros, 1),
  ]);
  const line = (...cells: (string | number)[]) =>
    `${cells.map((cell, i) => (i === 0 ? String(cell).padEnd(22) : String(cell).padStart(10))).join('')}\n`;
  process.stdout.write(line('GET /api/session', 'unit', 'ours', 'bare', 'ours/bare'));
  for (const { row: name, unit, ours, peers } of rows) {
    process.stdout.write(line(name, unit, ours, peers.bare, (ours / peers.bare).toFixed(2)));
  }
  const machine = `${cpus()[0]?.model ?? 'unknown'} x${cpus().length}, node ${process.version}`;
  process.stdout.write(`${JSON.stringify({ bench: 'http', machine, connections: CONNECTIONS, rows })}\n`);
}

function median(server: Server | undefined, of: (server: Server) => number[]): number {
  const sorted = (server === undefined ? [] : of(server)).toSorted((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}

// -------------------------------------------------------------------------------------------------------- the servers

/** The platform as `troupe up` builds it, on one adapter, with a container engine that is never asked for anything. */
async function startOurs(adapter: 'own' | 'uws' | 'node'): Promise<void> {
  // Loaded here, so that the bare servers stay bare.
  const { readEnvironment } = await import('../cmd/config/config.ts');
  const { openSecrets } = await import('../cmd/config/data-dir.ts');
  const { startPlatform } = await import('../cmd/node/platform.ts');
  const { testDatabase } = await import('../test/support/database/database.ts');
  const { silentLog } = await import('../test/support/log.ts');
  const database = await testDatabase();
  const environment = readEnvironment({
    ADMIN_PASSWORD: PASSWORD,
    HTTP_ADAPTER: adapter,
    JWT_SECRET: 'not a secret: '.repeat(4),
    ENCRYPTION_KEY: '01'.repeat(32),
  });
  const platform = await startPlatform({
    environment,
    secrets: openSecrets('.', environment), // All given: no file is touched.
    database: database.connection,
    engine: async () => emptyEngine,
    domain: 'troupe.localhost',
    host: '127.0.0.1',
    ports: { auth: 0, compute: 0, net: 0, monitor: 0, notify: 0, http: 0, https: 0, ssh: 0 },
    certificate: { context: createSecureContext(), authorityFile: null },
    accessLog: undefined,
    isCaching: false,
    log: silentLog,
    onProgress: () => {},
  });
  const login = await fetch(`${platform.urls.auth}/api/login`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ username: (await platform.admin()).username, password: PASSWORD }),
  });
  const { token } = z.object({ token: z.string() }).parse(await login.json());
  const request = `GET /api/session HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer ${token}\r\n\r\n`;
  announce({ port: Number(new URL(platform.urls.auth).port), request });
  await parentLeaves();
  await platform.stop();
  await database.close();
}

async function startBare(library: string, request: string, body: string): Promise<void> {
  if (library === 'uws') {
    const uws: typeof import('uWebSockets.js') = createRequire(import.meta.url)('uWebSockets.js');
    const app = uws.App().any('/*', (response) => {
      response.cork(() => response.writeHeader('content-type', 'application/json').end(body));
    });
    const port = await new Promise<number>((resolve) => {
      app.listen('127.0.0.1', 0, (socket) => resolve(socket ? uws.us_socket_local_port(socket) : 0));
    });
    announce({ port, request });
    await parentLeaves();
    app.close();
    return;
  }
  if (library === 'own') {
    const { listenOwn } = await import('../transports/http/own-server.ts');
    const own = await listenOwn({
      ...{ host: '127.0.0.1', port: 0 },
      onRequest: () => ({ status: 200, headers: [['content-type', 'application/json']], body }),
      onUpgrade: () => ({ refuse: { status: 404, headers: [] } }),
    });
    announce({ port: own.port, request });
    await parentLeaves();
    await own.close(0);
    return;
  }
  const server = createServer((_request, response) => {
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) });
    response.end(body);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  announce({ port: typeof address === 'object' ? (address?.port ?? 0) : 0, request });
  await parentLeaves();
  server.close();
  server.closeAllConnections();
}

function announce(answer: Serving): void {
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}

async function parentLeaves(): Promise<void> {
  process.stdin.resume();
  await once(process.stdin, 'end');
}

const nothing = async () => {};
const emptyEngine: Engine = {
  kind: 'memory',
  keepsFiles: true,
  resizesRunning: true,
  shrinksStorage: true,
  reservedAliases: [],
  hasSuccessors: false,
  sharesMountPaths: false,
  aliasLastsMs: 0,
  baseImage: 'bench',
  builtIns: [],
  isBuilt: async () => false,
  check: async () => 'none',
  ensureImage: nothing,
  create: nothing,
  start: nothing,
  join: nothing,
  beginSuccessor: nothing,
  promote: nothing,
  runOnce: async () => ({ exitCode: 0, oomKilled: false, lines: [] }),
  endOthers: nothing,
  renewKeys: nothing,
  stop: nothing,
  remove: nothing,
  inspect: async () => undefined,
  list: async () => [],
  watch: () => ({ close: nothing }),
  logs: async function* () {},
  dial: () => Promise.reject(new Error('The benchmark has no containers.')),
  exec: () => Promise.reject(new Error('The benchmark has no containers.')),
  run: () => Promise.reject(new Error('The benchmark has no containers.')),
  fileAccess: {
    stat: () => Promise.reject(new Error('The benchmark has no containers.')),
    read: () => Promise.reject(new Error('The benchmark has no containers.')),
    write: () => Promise.reject(new Error('The benchmark has no containers.')),
    remove: () => Promise.reject(new Error('The benchmark has no containers.')),
  },
  hasSshServer: async () => true,
  imageDigest: async () => undefined,
  forgetImages: async () => [],
  usage: () => ({ memoryBytes: 0, storageBytes: 0 }),
  close: nothing,
};

// ----------------------------------------------------------------------------------------------------------- the load

/** Asks on every connection, again as soon as the answer is whole. An answer comes with a length, and in one piece or more. */
async function load({ port, request }: Serving, seconds: number): Promise<void> {
  let requests = 0;
  let over = false;
  const bytes = Buffer.from(request);
  const sockets = Array.from({ length: CONNECTIONS }, () => {
    const buffer = Buffer.allocUnsafe(16_384);
    let missing = 0;
    const callback = (count: number) => {
      missing = (missing === 0 ? lengthOf(buffer.toString('latin1', 0, count)) : missing) - count;
      if (missing < 0) fail(`${-missing} bytes too many`);
      if (missing > 0) return true;
      requests++;
      if (!over) socket.write(bytes);
      return true;
    };
    const socket = connect({ host: '127.0.0.1', port, noDelay: true, onread: { buffer, callback } });
    socket.on('error', (error) => fail(error.message)).on('connect', () => socket.write(bytes));
    return socket;
  });
  const started = performance.now();
  await new Promise((resolve) => setTimeout(resolve, seconds * 1000));
  const took = (performance.now() - started) / 1000;
  over = true;
  process.stdout.write(`${JSON.stringify({ requests, seconds: took })}\n`);
  for (const socket of sockets) socket.destroy();
}

/** How long an answer is, from its head, which a small answer has in its first piece. */
function lengthOf(start: string): number {
  const end = start.indexOf('\r\n\r\n');
  const body = /\r\ncontent-length: (\d+)\r\n/i.exec(start)?.[1];
  if (!start.startsWith('HTTP/1.1 200 ') || end < 0 || body === undefined) fail(start);
  return end + 4 + Number(body);
}

function fail(reason: string): never {
  process.stderr.write(`the load met an answer it cannot count: ${reason}\n`);
  process.exit(1);
}

const [mode = '3', ...args] = process.argv.slice(2);
if (mode === 'ours') await startOurs(args[0] === 'uws' || args[0] === 'own' ? args[0] : 'node');
else if (mode === 'bare') await startBare(args[0] ?? 'node', args[1] ?? '', args[2] ?? '');
else if (mode === 'load') await load(serving.parse(JSON.parse(args[0] ?? '')), Number(args[1]));
else await compare(Number(mode), Number(args[0] ?? 2));
