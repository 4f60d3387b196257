/**
 * How long do a timer and an HTTP request wait while one actor is flooded with a million messages?
 *
 * `npm run bench -- fairness [ROUNDS]`: the flood comes from sockets' turns of the loop (1,000 messages each), then in one
 * go from another actor, then not at all, which tells what the machine and the load add. Beside it runs a 1 ms timer (how
 * much later than due) and a client in a process of its own that asks an HTTP server, which asks an actor, again and again.
 * The server is held to the last core and the client to the first, where taskset is. Each kind of flood is repeated until
 * a second has passed, and its mailbox has no bound, so that every message is handled.
 */
import { type ChildProcess, fork, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { Agent, get } from 'node:http';
import { cpus } from 'node:os';
import { fileURLToPath } from 'node:url';
import { errorText } from '../lib/errors.ts';
import { dispatch, query, type Ref, type SystemRef, spawn, start, stop, stopped } from '../supervision/index.ts';
import { listen } from '../transports/http/index.ts';

const FLOOD = 1_000_000;
const A_TURN = 1000;
const LEAST_MS = 1000;
const unbounded = { mailbox: { capacity: Number.MAX_SAFE_INTEGER } };

interface Quantiles {
  readonly p50: number;
  readonly p99: number;
  readonly max: number;
}

interface Result extends Quantiles {
  readonly row: string;
  readonly unit: 'ms';
  readonly samples: number;
}

function quantiles(samples: readonly number[]): Quantiles {
  const sorted = [...samples].sort((a, b) => a - b);
  const at = (share: number): number => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
  return { p50: at(0.5), p99: at(0.99), max: at(1) };
}

/** Holds a process to a core, where that can be done. */
function pin(core: number): void {
  spawnSync('taskset', ['-a', '-c', '-p', String(core), String(process.pid)], { stdio: 'ignore' });
}

// ----------------------------------------------------------------------------------------------------------- the client

/** Asks one request after the other; on `begin` forgets what it measured, on `report` tells it. */
async function client(port: number): Promise<void> {
  pin(0);
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  let samples: number[] = [];
  let going = true;
  process.on('message', (message) => {
    if (message === 'begin') samples = [];
    else if (message === 'report') process.send?.(samples);
    else going = false;
  });
  process.on('disconnect', () => {
    going = false;
  });
  while (going) {
    const begin = performance.now();
    await new Promise<void>((resolve, reject) => {
      const request = get({ host: '127.0.0.1', port, agent }, (reply) => reply.resume().on('end', resolve));
      request.on('error', reject);
    });
    samples.push(performance.now() - begin);
    // A pause, so that requests come at any time of the server's turn.
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
  agent.destroy();
  process.disconnect?.();
}

/** What the client measured; rejects when it ends instead. */
async function reported(child: ChildProcess, ended: Promise<unknown[]>): Promise<number[]> {
  const answer = once(child, 'message');
  if (child.connected) child.send('report');
  const failed = ended.then(([code]) => {
    throw new Error(`the client ended with exit code ${code}`);
  });
  const [samples] = await Promise.race([answer, failed]);
  return Array.isArray(samples) ? samples.filter((each) => typeof each === 'number') : [];
}

// ----------------------------------------------------------------------------------------------------------- the floods

type Flood = (system: SystemRef) => Promise<void>;

/** An actor that counts, and a promise of the millionth message. */
function sink(system: SystemRef): { readonly ref: Ref<number>; readonly heard: Promise<void> } {
  let resolve = (): void => {};
  const heard = new Promise<void>((settle) => {
    resolve = settle;
  });
  const ref = spawn<number, number>(
    system,
    (sum) => {
      if (sum + 1 === FLOOD) resolve();
      return sum + 1;
    },
    { initialState: 0, ...unbounded },
  );
  return { ref, heard };
}

const fromManyTurns: Flood = async (system) => {
  const { ref, heard } = sink(system);
  for (let sent = 0; sent < FLOOD; sent += A_TURN) {
    for (let i = 0; i < A_TURN; i++) dispatch(ref, i);
    await new Promise((resolve) => setImmediate(resolve));
  }
  await heard;
  stop(ref);
};

/** The sender is one handler and is not interrupted: its own time is a part of the wait. */
const inOneGo: Flood = async (system) => {
  const { ref, heard } = sink(system);
  const sender = spawn<undefined, 'go'>(system, () => {
    for (let i = 0; i < FLOOD; i++) dispatch(ref, i);
    return undefined;
  });
  dispatch(sender, 'go');
  await heard;
  stop(ref);
  stop(sender);
};

/** Ten actors send at once, in handlers of 1,000 messages that send themselves the next one. */
const fromActors: Flood = async (system) => {
  const { ref, heard } = sink(system);
  const senders = Array.from({ length: 10 }, () =>
    spawn<undefined, number>(system, (_, left, ctx) => {
      for (let i = 0; i < A_TURN; i++) dispatch(ref, i);
      if (left > A_TURN) dispatch(ctx.self, left - A_TURN);
      return undefined;
    }),
  );
  for (const sender of senders) dispatch(sender, FLOOD / senders.length);
  await heard;
  for (const each of [ref, ...senders]) stop(each);
};

const none: Flood = () => new Promise((resolve) => setTimeout(resolve, 100));

const floods: readonly (readonly [name: string, flood: Flood])[] = [
  ['no flood', none],
  ['flood from 1,000 turns', fromManyTurns],
  ['flood from ten actors', fromActors],
  ['flood in one go', inOneGo],
];

// ------------------------------------------------------------------------------------------------------------ measuring

/** How much later than 1 ms a timer of 1 ms fires, again and again until stopped. */
function lateness(): { readonly samples: number[]; readonly end: () => void } {
  const samples: number[] = [];
  let begin = performance.now();
  let timer: NodeJS.Timeout;
  const fired = (): void => {
    const now = performance.now();
    samples.push(Math.max(0, now - begin - 1));
    begin = now;
    timer = setTimeout(fired, 1);
  };
  timer = setTimeout(fired, 1);
  return { samples, end: () => clearTimeout(timer) };
}

async function measure(rounds: number): Promise<Result[]> {
  const system = start();
  const echo = spawn<undefined, { readonly replyTo: Ref<string> }>(system, (_, { replyTo }) => {
    dispatch(replyTo, 'here');
    return undefined;
  });
  const server = await listen({
    host: '127.0.0.1',
    port: 0,
    onRequest: async () => {
      const body = await query(echo, (replyTo: Ref<string>) => ({ replyTo }), 10_000);
      return { status: 200, headers: [], body };
    },
    onUpgrade: () => ({ refuse: { status: 404, headers: [] } }),
  });
  const child = fork(fileURLToPath(import.meta.url), ['client', String(server.port)]);
  const ended = once(child, 'exit');
  const seen = new Map<string, { timer: number[]; http: number[] }>();
  try {
    for (let round = 0; round <= rounds; round++) {
      for (const [name, flood] of floods) {
        if (child.connected) child.send('begin');
        const timer = lateness();
        const until = performance.now() + LEAST_MS;
        while (performance.now() < until) await flood(system);
        timer.end();
        const http = await reported(child, ended);
        if (round === 0) continue; // Lets the compiler settle.
        const all = seen.get(name) ?? { timer: [], http: [] };
        seen.set(name, { timer: [...all.timer, ...timer.samples], http: [...all.http, ...http] });
      }
    }
  } catch (error) {
    // The table has what was measured until then.
    process.stderr.write(`${errorText(error)}\n`);
    process.exitCode = 1;
  } finally {
    if (child.connected) child.send('end');
    await ended;
    await server.close(1000);
    stop(system);
    await stopped(system);
  }
  return [...seen].flatMap(([name, { timer, http }]) => [
    { row: `1 ms timer, ${name}`, unit: 'ms' as const, samples: timer.length, ...quantiles(timer) },
    { row: `HTTP request, ${name}`, unit: 'ms' as const, samples: http.length, ...quantiles(http) },
  ]);
}

async function compare(rounds: number): Promise<void> {
  pin(cpus().length - 1);
  const machine = `${cpus()[0]?.model ?? 'unknown'} x ${cpus().length}, node ${process.version}`;
  process.stdout.write(`${machine}, ${rounds} rounds; milliseconds\n`);
  const rows = await measure(rounds);
  const columns = (cells: readonly string[]): string => cells.map((cell) => cell.padStart(10)).join('');
  process.stdout.write(`${''.padEnd(44)}${columns(['p50', 'p99', 'max', 'samples'])}\n`);
  for (const { row, p50, p99, max, samples } of rows) {
    const cells = columns([p50.toFixed(2), p99.toFixed(2), max.toFixed(2), String(samples)]);
    process.stdout.write(`${row.padEnd(44)}${cells}\n`);
  }
  process.stdout.write(`${JSON.stringify({ bench: 'fairness', machine, rows })}\n`);
}

const [first, second] = process.argv.slice(2);
if (first === 'client') await client(Number(second));
else await compare(Math.min(Math.max(Number(first ?? 3) || 3, 1), 10));
