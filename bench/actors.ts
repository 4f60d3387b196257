/**
 * How fast is the actor runtime, and how small is an actor, beside nact and Erlang/OTP?
 *
 * `npm run bench -- actors [ROUNDS]`: each row is measured in turns, ours then its peers, after one round to let the
 * compilers settle; medians, all on one core where taskset is. The handlers are the same functions in ours and nact, and
 * the same work in Erlang (actors/erlang, one scheduler). Sizes differ by engine so that no row takes long; all rows are
 * rates, except the bytes of an idle actor together with its ref.
 */
import { spawnSync } from 'node:child_process';
import { createRequire } from 'node:module';
import { cpus } from 'node:os';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { dispatch, query, Ref, spawn, start, stop } from '../supervision/index.ts';
import { startErlang } from './actors/erlang.ts';

type EngineRef = unknown;
type Handler = (state: unknown, msg: unknown) => unknown;

/** The verbs the rows need. `scale` shrinks the work for an engine that is slow at everything. */
interface Engine {
  readonly name: string;
  readonly scale: number;
  start(): EngineRef;
  spawn(parent: EngineRef, f: Handler): EngineRef;
  dispatch(ref: EngineRef, msg: unknown): void;
  query(ref: EngineRef, make: (replyTo: EngineRef) => unknown, timeoutMs: number): Promise<unknown>;
  stop(ref: EngineRef): void;
}

/** One question: prepares in `system`, then gives what is timed; that resolves with how many units it did. */
interface Row {
  readonly row: string;
  readonly unit: string;
  /** Units at scale 1. */
  readonly count: number;
  readonly prepare: (
    engine: Engine,
    system: EngineRef,
    count: number,
  ) => (() => Promise<number> | number) | Promise<() => Promise<number> | number>;
  /** Work of nact in this row beside `count`, when it differs from its scale; 0 when it could not end in our time. */
  readonly nactScale?: number;
  /** What the row is called in actors.erl. */
  readonly erlang?: string;
  /** The same question without the burden it is about, for ours: a peer named `unburdened`. */
  readonly unburdened?: Row['prepare'];
}

// -------------------------------------------------------------------------------------------------------------- engines

function our(ref: EngineRef): Ref<unknown> {
  if (ref instanceof Ref) return ref;
  throw new TypeError('not one of our refs');
}

const unbounded = { mailbox: { capacity: Number.MAX_SAFE_INTEGER } };

const ours: Engine = {
  name: 'ours',
  scale: 1,
  start: () => start(),
  spawn: (parent, f) => spawn(our(parent), f, unbounded),
  dispatch: (ref, msg) => dispatch(our(ref), msg),
  query: (ref, make, timeoutMs) => query(our(ref), make, timeoutMs),
  stop: (ref) => stop(our(ref)),
};

interface Nact extends Omit<Engine, 'name' | 'scale' | 'spawn'> {
  spawn(parent: EngineRef, f: Handler, name: string): EngineRef;
}

const nactModule: Nact = createRequire(import.meta.url)('nact');
// Its own names are random 31-bit numbers that throw when they meet.
let nextName = 0;
const nact: Engine = {
  name: 'nact',
  scale: 0.1,
  start: () => nactModule.start(),
  spawn: (parent, f) => nactModule.spawn(parent, f, `n${nextName++}`),
  dispatch: nactModule.dispatch,
  query: nactModule.query,
  stop: nactModule.stop,
};

// ----------------------------------------------------------------------------------------------------------------- rows

/** Resolves when `done` was called `times` times. */
function countdown(times: number): { readonly reached: Promise<void>; readonly done: () => void } {
  let left = times;
  let resolve = (): void => {};
  const reached = new Promise<void>((settle) => {
    resolve = settle;
  });
  return {
    reached,
    done: () => {
      if (--left === 0) resolve();
    },
  };
}

const isAsk = (msg: unknown): msg is { readonly replyTo: EngineRef } =>
  typeof msg === 'object' && msg !== null && 'replyTo' in msg;

const ask = (replyTo: EngineRef): { readonly replyTo: EngineRef } => ({ replyTo });
const BATCH = 1000;
const FAN_OUT = 100_000;
const RING = 1000;

/** Sends each of 100,000 actors a message and waits for all, until `count` were sent. */
function fanOutOf(engine: Engine, system: EngineRef): (count: number) => Promise<number> {
  let end = countdown(FAN_OUT);
  // Under 100 parents: the question is about sending, the cost of many siblings has rows of its own.
  const parents = Array.from({ length: 100 }, () => engine.spawn(system, () => undefined));
  const leaves = Array.from({ length: FAN_OUT }, (_, i) => engine.spawn(parents[i % 100], () => end.done()));
  return async (count) => {
    for (let sent = 0; sent < count; sent += FAN_OUT) {
      end = countdown(FAN_OUT);
      for (const leaf of leaves) engine.dispatch(leaf, sent);
      await end.reached;
    }
    return count;
  };
}

/** Tells an actor with so many children `count` messages. */
function parentOf(children: number): Row['prepare'] {
  return (engine, system, count) => {
    let end = countdown(count);
    const parent = engine.spawn(system, () => end.done());
    const idle: Handler = (state) => state;
    for (let i = 0; i < children; i++) engine.spawn(parent, idle);
    return async () => {
      end = countdown(count);
      for (let i = 0; i < count; i++) engine.dispatch(parent, i);
      await end.reached;
      return count;
    };
  };
}

/** Tells 100 siblings `count` messages, beside a neighbour that crashes at its every message and is reset at once or not. */
function besideCrashes(crashing: boolean): Row['prepare'] {
  return (_engine, system, count) => {
    let end = countdown(1);
    let heard = 0;
    const siblings = Array.from({ length: 100 }, () =>
      spawn<undefined, number>(our(system), () => {
        if (++heard === count) end.done();
        else if (heard % BATCH === 0) setImmediate(feed);
        return undefined;
      }),
    );
    const feed = (): void => {
      for (let i = 0; i < BATCH; i++) {
        const sibling = siblings[i % siblings.length];
        if (sibling !== undefined) dispatch(sibling, i);
      }
    };
    if (crashing) {
      const neighbour = spawn<undefined, string>(
        our(system),
        () => {
          throw new Error('in a loop');
        },
        {
          onCrash: (msg, _error, ctx) => {
            dispatch(neighbour, msg ?? 'again');
            return ctx.reset;
          },
          intensity: { max: Number.MAX_SAFE_INTEGER, withinMs: 1 },
          backoff: { minMs: 1, maxMs: 10 },
        },
      );
      dispatch(neighbour, 'crash');
    }
    return async () => {
      end = countdown(1);
      heard = 0;
      feed();
      await end.reached;
      return count;
    };
  };
}

const rows: readonly Row[] = [
  {
    row: 'tell to one actor, 1,000 at a time',
    erlang: 'tell_batches',
    unit: 'msg/s',
    count: 2_000_000,
    prepare: (engine, system, count) => async () => {
      let heard = 0;
      const end = countdown(1);
      const feed = (): void => {
        for (let i = 0; i < BATCH; i++) engine.dispatch(sink, i);
      };
      const sink = engine.spawn(system, () => {
        if (++heard === count) end.done();
        else if (heard % BATCH === 0) setImmediate(feed);
        return undefined;
      });
      feed();
      await end.reached;
      return count;
    },
  },
  {
    row: 'tell to one actor, all at once',
    erlang: 'tell',
    unit: 'msg/s',
    count: 1_000_000,
    prepare: (engine, system, count) => async () => {
      const end = countdown(count);
      const sink = engine.spawn(system, () => end.done());
      for (let i = 0; i < count; i++) engine.dispatch(sink, i);
      await end.reached;
      return count;
    },
  },
  {
    row: 'ask, 1,000 open',
    erlang: 'ask_open',
    unit: 'ask/s',
    count: 400_000,
    prepare: (engine, system, count) => {
      const echo = engine.spawn(system, (_, msg) => {
        if (isAsk(msg)) engine.dispatch(msg.replyTo, 1);
        return undefined;
      });
      return async () => {
        for (let sent = 0; sent < count; sent += BATCH) {
          await Promise.all(Array.from({ length: BATCH }, () => engine.query(echo, ask, 10_000)));
        }
        return count;
      };
    },
  },
  {
    row: 'ask, one after the other',
    erlang: 'ask',
    unit: 'ask/s',
    count: 200_000,
    prepare: (engine, system, count) => {
      const echo = engine.spawn(system, (_, msg) => {
        if (isAsk(msg)) engine.dispatch(msg.replyTo, 1);
        return undefined;
      });
      return async () => {
        for (let i = 0; i < count; i++) await engine.query(echo, ask, 10_000);
        return count;
      };
    },
  },
  {
    row: 'ping-pong',
    erlang: 'ping_pong',
    unit: 'msg/s',
    count: 2_000_000,
    prepare: (engine, system, count) => async () => {
      const end = countdown(1);
      const players: EngineRef[] = [];
      for (const other of [1, 0]) {
        players.push(
          engine.spawn(system, (_, left) => {
            if (typeof left === 'number' && left > 1) engine.dispatch(players[other], left - 1);
            else end.done();
            return undefined;
          }),
        );
      }
      engine.dispatch(players[0], count);
      await end.reached;
      return count;
    },
  },
  {
    row: 'ring of 1,000',
    erlang: 'ring',
    unit: 'msg/s',
    count: 2_000_000,
    prepare: (engine, system, count) => {
      let end = countdown(1);
      const ring: EngineRef[] = [];
      for (let i = 0; i < RING; i++) {
        ring.push(
          engine.spawn(system, (_, left) => {
            if (typeof left === 'number' && left > 1) engine.dispatch(ring[(i + 1) % RING], left - 1);
            else end.done();
            return undefined;
          }),
        );
      }
      return async () => {
        end = countdown(1);
        engine.dispatch(ring[0], count);
        await end.reached;
        return count;
      };
    },
  },
  {
    row: 'fan-out to 100,000',
    erlang: 'fan_out',
    unit: 'msg/s',
    count: 10 * FAN_OUT,
    nactScale: 0.2,
    prepare: async (engine, system, count) => {
      // The next row asks about the first message of each.
      const fanOut = fanOutOf(engine, system);
      await fanOut(FAN_OUT);
      return () => fanOut(count);
    },
  },
  {
    row: 'fan-out to 100,000 that never had a message',
    erlang: 'fan_out_first',
    unit: 'msg/s',
    count: FAN_OUT,
    nactScale: 1,
    prepare: (engine, system, count) => {
      const fanOut = fanOutOf(engine, system);
      return () => fanOut(count);
    },
  },
  {
    row: 'spawn and stop',
    erlang: 'spawn_stop',
    unit: 'actor/s',
    count: 300_000,
    prepare: (engine, system, count) => () => {
      for (let i = 0; i < count; i++) engine.stop(engine.spawn(system, () => undefined));
      return count;
    },
  },
  {
    row: 'spawn under one parent',
    erlang: 'spawn',
    unit: 'actor/s',
    count: 200_000,
    prepare: (engine, system, count) => () => {
      for (let i = 0; i < count; i++) engine.spawn(system, () => undefined);
      return count;
    },
  },
  {
    row: 'message to a parent with 100,000 children',
    unit: 'msg/s',
    count: 1_000_000,
    nactScale: 0.000_02,
    prepare: parentOf(100_000),
  },
  {
    row: 'message to a parent with 1,000,000 children',
    unit: 'msg/s',
    count: 1_000_000,
    nactScale: 0,
    prepare: parentOf(1_000_000),
    unburdened: parentOf(0),
  },
  {
    row: '100 siblings beside a crash loop',
    unit: 'msg/s',
    count: 10_000_000,
    nactScale: 0,
    prepare: besideCrashes(true),
    unburdened: besideCrashes(false),
  },
];

// ------------------------------------------------------------------------------------------------------------ measuring

setFlagsFromString('--expose-gc');
const collect: () => void = runInNewContext('gc');

async function rate(engine: Engine, prepare: Row['prepare'], count: number): Promise<number> {
  const system = engine.start();
  const work = await prepare(engine, system, count);
  collect();
  const begin = performance.now();
  const units = await work();
  const seconds = (performance.now() - begin) / 1000;
  engine.stop(system);
  // Its end is not the next one's burden.
  await new Promise((resolve) => setTimeout(resolve, 50));
  return units / seconds;
}

/** The engines of a row, each as a function that measures once. */
function contenders(row: Row): Map<string, () => Promise<number>> {
  const found = new Map<string, () => Promise<number>>();
  const { prepare, unburdened, erlang: name, nactScale = nact.scale } = row;
  found.set('ours', () => rate(ours, prepare, row.count));
  if (nactScale > 0) found.set('nact', () => rate(nact, prepare, Math.round(row.count * nactScale)));
  if (unburdened !== undefined) found.set('unburdened', () => rate(ours, unburdened, row.count));
  if (erlang !== undefined && name !== undefined) found.set('erlang', () => erlang.measure(name, row.count));
  return found;
}

/** Heap an idle actor takes, its ref held in an array that was there before. */
function bytesOfAnIdleActor(engine: Engine): number {
  const count = engine === nact ? 50_000 : 200_000;
  const system = engine.start();
  const refs: EngineRef[] = new Array(count).fill(undefined);
  const handle: Handler = (state) => state;
  const parent = engine.spawn(system, handle);
  collect();
  const before = process.memoryUsage().heapUsed;
  for (let i = 0; i < count; i++) refs[i] = engine.spawn(parent, handle);
  collect();
  const bytes = (process.memoryUsage().heapUsed - before) / refs.length;
  engine.stop(system);
  return bytes;
}

function median(numbers: readonly number[]): number {
  const sorted = [...numbers].sort((a, b) => a - b);
  return sorted[sorted.length >> 1] ?? 0;
}

interface Result {
  readonly row: string;
  readonly unit: string;
  readonly ours: number;
  readonly peers: Readonly<Record<string, number>>;
}

async function measure(row: string, unit: string, by: Map<string, () => Promise<number>>, rounds: number) {
  const seen = new Map<string, number[]>();
  for (const name of by.keys()) seen.set(name, []);
  for (let round = 0; round <= rounds; round++) {
    for (const [name, once] of by) {
      const measured = await once();
      if (round > 0) seen.get(name)?.push(measured);
    }
  }
  const medians = [...seen].map(([name, rates]) => [name, Math.round(median(rates))] as const);
  const peers = Object.fromEntries(medians.filter(([name]) => name !== 'ours'));
  const result: Result = { row, unit, ours: new Map(medians).get('ours') ?? 0, peers };
  show(result);
  return result;
}

async function measureAll(rounds: number): Promise<Result[]> {
  const results: Result[] = [];
  for (const row of rows) results.push(await measure(row.row, row.unit, contenders(row), rounds));
  const sizes = new Map<string, () => Promise<number>>();
  for (const engine of [ours, nact]) sizes.set(engine.name, async () => bytesOfAnIdleActor(engine));
  if (erlang !== undefined) sizes.set('erlang', () => erlang.measure('bytes', 200_000));
  results.push(await measure('idle actor with its ref', 'bytes', sizes, 1));
  return results;
}

function show({ row, unit, ours: mine, peers }: Result): void {
  const cells = [row.padEnd(44), mine.toLocaleString('en').padStart(12)];
  for (const [name, theirs] of Object.entries(peers)) {
    // For bytes less is better; either way a ratio over 1 speaks for ours.
    const ratio = unit === 'bytes' ? theirs / mine : mine / theirs;
    cells.push(` ${name} ${theirs.toLocaleString('en')}`.padEnd(22), `x ${ratio.toPrecision(3)}`.padEnd(10));
  }
  process.stdout.write(`${cells.join(' ')} ${unit}\n`);
}

/** Holds this process, and those it starts, to the last core. Whether it could. */
function pinToOneCore(): boolean {
  const core = String(cpus().length - 1);
  return spawnSync('taskset', ['-a', '-c', '-p', core, String(process.pid)], { stdio: 'ignore' }).status === 0;
}

const rounds = Math.min(Math.max(Number(process.argv[2] ?? 3) || 3, 1), 10);
const pinned = pinToOneCore() ? 'on one core' : 'not held to one core';
const machine = `${cpus()[0]?.model ?? 'unknown'} x ${cpus().length}, node ${process.version}`;
const erlang = startErlang();
const peer = erlang === undefined ? 'no erl here: measured without Erlang' : `Erlang/OTP ${erlang.version}`;
process.stdout.write(`${machine}, ${pinned}, ${rounds} rounds, ${peer}\n`);
try {
  const measured = await measureAll(rounds);
  process.stdout.write(`${JSON.stringify({ bench: 'actors', machine, rows: measured })}\n`);
} finally {
  erlang?.end();
}
