/**
 * What does a terminal through the platform cost, beside `docker exec` and beside SSH straight into the container? And one with a session id,
 * whose shell is kept in the container, beside one without?
 *
 * `npm run bench -- terminal [ROUNDS] [MEBIBYTES] [KEYS]`: a real platform and a real container on DOCKER_HOST. In turns, each in a
 * PTY of its own: a flood of MEBIBYTES (MB/s from the first byte to the last; medians), then KEYS keys, each typed in one after
 * the other (p50 and p99 until the echo). The peers are OpenSSH's client and Docker's API.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { request as httpRequest } from 'node:http';
import { cpus, tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Duplex } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { WebSocket } from 'ws';
import { z } from 'zod';
import { startBox } from '../test/support/clients/container.ts';
import { deleteAll, logIn, startPlatform } from '../test/support/cluster/platform.ts';
import { docker, perlImage } from '../test/support/engine/docker-client.ts';

/** A terminal, however it is reached. */
interface Terminal {
  write(text: string): void;
  /** Replaced by whoever listens now. */
  onData: (data: Buffer) => void;
  close(): void;
}

type Open = () => Promise<Terminal>;

const names = ['ours', 'kept', 'ssh', 'exec'] as const;

const SETUP = 'stty -echo -onlcr; PS1=; printf "re""ady"\n';
const [rounds = 5, mebibytes = 64, keys = 2000] = process.argv.slice(2).map(Number);

// ------------------------------------------------------------------------------------------------------ what is measured

/** MB/s of one flood. */
async function flood(open: Open): Promise<number> {
  const terminal = await ready(open);
  const total = mebibytes * 2 ** 20;
  const done = new Promise<number>((resolve) => {
    let bytes = 0;
    let first = 0;
    terminal.onData = (data) => {
      if (bytes === 0) first = performance.now();
      bytes += data.length;
      if (bytes >= total) resolve(total / 1e3 / (performance.now() - first));
    };
  });
  terminal.write(`head -c ${total} /dev/zero\n`);
  const rate = await within(done, 'a flood');
  terminal.close();
  return rate;
}

/** A terminal in which keys are echoed and nothing else happens. */
async function echoing(open: Open): Promise<Terminal> {
  const terminal = await ready(open);
  terminal.write('stty echo; exec cat\n');
  await delay(300);
  return terminal;
}

/** Milliseconds from key to echo. */
async function echo(terminal: Terminal): Promise<number> {
  const begin = performance.now();
  const heard = new Promise<void>((resolve) => {
    terminal.onData = () => resolve();
  });
  terminal.write('x');
  await within(heard, 'an echo');
  const took = performance.now() - begin;
  terminal.onData = () => {};
  terminal.write('\x15'); // Takes the key back: a line has a limit.
  return took;
}

async function ready(open: Open): Promise<Terminal> {
  const terminal = await open();
  let seen = '';
  const prompt = new Promise<void>((resolve) => {
    terminal.onData = (data) => {
      seen += data.toString('latin1');
      if (seen.endsWith('ready')) resolve();
    };
  });
  terminal.write(SETUP);
  await within(prompt, `a prompt (${seen})`);
  return terminal;
}

async function within<T>(work: Promise<T>, what: string): Promise<T> {
  const abort = new AbortController();
  const late = delay(120_000, undefined, { signal: abort.signal }).then(() => {
    throw new Error(`${what} did not come`);
  });
  late.catch(() => {});
  try {
    return await Promise.race([work, late]);
  } finally {
    abort.abort();
  }
}

// ------------------------------------------------------------------------------------------------------------- the ways in

function throughPlatform(url: string, token: string, query: () => string = () => ''): Open {
  return async () => {
    const socket = new WebSocket(url + query(), {
      headers: { authorization: `Bearer ${token}` },
      perMessageDeflate: false,
    });
    const terminal: Terminal = {
      write: (text) => socket.send(Buffer.from(text)),
      onData: () => {},
      close: () => socket.close(1000),
    };
    socket.on('message', (data: Buffer) => terminal.onData(data));
    await once(socket, 'open');
    return terminal;
  };
}

function throughSsh(address: string, keyFile: string): Open {
  const quiet = ['StrictHostKeyChecking=no', 'UserKnownHostsFile=/dev/null', 'LogLevel=ERROR', 'BatchMode=yes'];
  return async () => {
    const options = quiet.flatMap((option) => ['-o', option]);
    const child = spawn('ssh', ['-tt', '-i', keyFile, ...options, `root@${address}`], {
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    return overPipes(child);
  };
}

function overPipes(child: ChildProcess): Terminal {
  const terminal: Terminal = {
    write: (text) => void child.stdin?.write(text),
    onData: () => {},
    close: () => void child.kill('SIGTERM'),
  };
  child.stdout?.on('data', (data: Buffer) => terminal.onData(data));
  return terminal;
}

function throughExec(dockerId: string): Open {
  return async () => {
    const Cmd = ['/bin/sh'];
    const body = { AttachStdin: true, AttachStdout: true, AttachStderr: true, Tty: true, Cmd };
    const { Id } = await docker().json('POST', `/containers/${dockerId}/exec`, z.object({ Id: z.string() }), { body });
    const socket = await hijack(`/exec/${Id}/start`, JSON.stringify({ Detach: false, Tty: true }));
    const terminal: Terminal = {
      write: (text) => void socket.write(text),
      onData: () => {},
      close: () => socket.destroy(),
    };
    socket.on('error', () => {}).on('data', (data: Buffer) => terminal.onData(data));
    return terminal;
  };
}

function hijack(path: string, body: string): Promise<Duplex> {
  return new Promise((resolve, reject) => {
    const headers = { 'content-type': 'application/json', connection: 'Upgrade', upgrade: 'tcp' };
    const socketPath = (process.env.DOCKER_HOST ?? '').replace('unix://', '');
    const exec = httpRequest({ socketPath, path, method: 'POST', headers });
    exec.on('upgrade', (_response, socket, head) => {
      if (head.length > 0) socket.unshift(head);
      resolve(socket);
    });
    exec.on('response', (response) => reject(new Error(`docker exec: ${response.statusCode}`)));
    exec.on('error', reject);
    exec.end(body);
  });
}

// ------------------------------------------------------------------------------------------------------------- the whole

async function main(): Promise<void> {
  const data = await mkdtemp(join(tmpdir(), 'troupe-bench-'));
  const platform = await startPlatform({ data, env: { DEFAULT_IMAGE: await perlImage() } });
  const { urls, admin } = platform.ready;
  try {
    const token = await logIn(urls.auth, admin.username, admin.password ?? '');
    try {
      const box = await startBox(urls.compute, token, data);
      await compare({
        ours: throughPlatform(`${box.ws}/terminal`, token),
        kept: throughPlatform(`${box.ws}/terminal`, token, () => `?session=${randomUUID()}`),
        ssh: throughSsh(box.address, box.keyFile),
        exec: throughExec(box.dockerId),
      });
    } finally {
      await deleteAll(urls.compute, token);
    }
  } finally {
    await platform.stop();
    await rm(data, { recursive: true, force: true });
  }
}

async function compare(ways: Record<(typeof names)[number], Open>): Promise<void> {
  const rates = { ours: [0], kept: [0], ssh: [0], exec: [0] };
  const times = { ours: [0], kept: [0], ssh: [0], exec: [0] };
  for (const name of names) {
    await flood(ways[name]); // Lets compilers settle.
    rates[name] = [];
    times[name] = [];
  }
  for (let round = 0; round < rounds; round++) {
    for (const name of names) rates[name].push(await flood(ways[name]));
  }
  const terminals = {
    ...{ ours: await echoing(ways.ours), kept: await echoing(ways.kept) },
    ...{ ssh: await echoing(ways.ssh), exec: await echoing(ways.exec) },
  };
  for (let key = 0; key < keys; key++) {
    for (const name of names) times[name].push(await echo(terminals[name]));
    await delay(4); // Lets the keys that were taken back be shown.
  }
  for (const name of names) terminals[name].close();
  const row = (name: string, unit: string, of: (way: (typeof names)[number]) => number) => ({
    ...{ row: name, unit, ours: of('ours') },
    kept: of('kept'),
    peers: { ssh: of('ssh'), exec: of('exec') },
  });
  const rows = [
    row('flood', 'MB/s', (way) => quantile(rates[way], 0.5, 1)),
    row('echo p50', 'ms', (way) => quantile(times[way], 0.5, 3)),
    row('echo p99', 'ms', (way) => quantile(times[way], 0.99, 3)),
  ];
  const added = rows.map(({ ours, peers }) => (ours - peers.ssh).toFixed(2));
  const line = (...cells: (string | number)[]) =>
    `${cells.map((cell, i) => (i === 0 ? String(cell).padEnd(12) : String(cell).padStart(10))).join('')}\n`;
  process.stdout.write(line('terminal', 'unit', 'ours', 'kept', 'ssh', 'exec', 'ours/ssh', 'ours-ssh', 'kept/ours'));
  for (const [i, { row: name, unit, ours, kept, peers }] of rows.entries()) {
    const ratios = [(ours / peers.ssh).toFixed(2), added[i] ?? '', (kept / ours).toFixed(2)];
    process.stdout.write(line(name, unit, ours, kept, peers.ssh, peers.exec, ...ratios));
  }
  const machine = `${cpus()[0]?.model ?? 'unknown'} x${cpus().length}, node ${process.version}`;
  process.stdout.write(`${JSON.stringify({ bench: 'terminal', machine, mebibytes, rows })}\n`);
}

function quantile(values: readonly number[], share: number, digits: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return Number((sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN).toFixed(digits));
}

await main();
