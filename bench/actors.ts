/**
 * How fast is the actor runtime, and how small is an actor, beside nact?
 *
 * `npm run bench -- actors [ROUNDS]`: each row is measured in turns, ours then nact, after one round to let the compiler
 * settle; medians. The handlers are the same functions on both sides. Sizes differ by engine so that no row takes long;
 * all rows are rates, except the bytes of an idle actor together with its ref.
 */
import { createRequire } from 'node:module';
import { cpus } from 'node:os';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { dispatch, query, Ref, spawn, start, stop } from '../supervision/index.ts';

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
  readonly prepare: (engine: Engine, system: EngineRef, count: number) => () => Promise<number> | number;
  /** Work of nact in this row beside `count`, when it differs from its scale. */
  readonly nactScale?: number;
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

const engines = [ours, nact];

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

const rows: readonly Row[] = [
  {
    row: 'tell to one actor, 1,000 at a time',
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
    unit: 'msg/s',
    count: 2_000_000,
    prepare: (engine, system, count) => async () => {
      const end = countdown(count);
      const players: EngineRef[] = [];
      for (const other of [1, 0]) {
        players.push(
          engine.spawn(system, (_, left) => {
            end.done();
            if (typeof left === 'number' && left > 1) engine.dispatch(players[other], left - 1);
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
    unit: 'msg/s',
    count: 5 * FAN_OUT,
    nactScale: 0.2,
    prepare: (engine, system, count) => {
      let end = countdown(FAN_OUT);
      // Under 100 parents: the row asks about sending, the cost of many siblings is asked below.
      const parents = Array.from({ length: 100 }, () => engine.spawn(system, () => undefined));
      const leaves = Array.from({ length: FAN_OUT }, (_, i) => engine.spawn(parents[i % 100], () => end.done()));
      return async () => {
        for (let sent = 0; sent < count; sent += FAN_OUT) {
          end = countdown(FAN_OUT);
          for (const leaf of leaves) engine.dispatch(leaf, sent);
          await end.reached;
        }
        return count;
      };
    },
  },
  {
    row: 'spawn and stop',
    unit: 'actor/s',
    count: 300_000,
    prepare: (engine, system, count) => () => {
      for (let i = 0; i < count; i++) engine.stop(engine.spawn(system, () => undefined));
      return count;
    },
  },
  {
    row: 'spawn under one parent',
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
    prepare: (engine, system, count) => {
      let end = countdown(count);
      const parent = engine.spawn(system, () => end.done());
      for (let i = 0; i < FAN_OUT; i++) engine.spawn(parent, () => undefined);
      return async () => {
        end = countdown(count);
        for (let i = 0; i < count; i++) engine.dispatch(parent, i);
        await end.reached;
        return count;
      };
    },
  },
];

// ------------------------------------------------------------------------------------------------------------ measuring

setFlagsFromString('--expose-gc');
const collect: () => void = runInNewContext('gc');

async function rate(row: Row, engine: Engine): Promise<number> {
  const scale = engine === nact ? (row.nactScale ?? nact.scale) : engine.scale;
  const system = engine.start();
  const work = row.prepare(engine, system, Math.round(row.count * scale));
  collect();
  const begin = performance.now();
  const units = await work();
  const seconds = (performance.now() - begin) / 1000;
  engine.stop(system);
  return units / seconds;
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
  readonly peers: { readonly nact: number };
}

function result(row: string, unit: string, seen: Map<Engine, number[]>): Result {
  const of = (engine: Engine) => Math.round(median(seen.get(engine) ?? []));
  return { row, unit, ours: of(ours), peers: { nact: of(nact) } };
}

async function measure(rounds: number): Promise<Result[]> {
  const results: Result[] = [];
  for (const row of rows) {
    const seen = new Map<Engine, number[]>(engines.map((engine) => [engine, []]));
    for (let round = 0; round <= rounds; round++) {
      for (const engine of engines) {
        const measured = await rate(row, engine);
        if (round > 0) seen.get(engine)?.push(measured);
      }
    }
    results.push(result(row.row, row.unit, seen));
    show(results.at(-1));
  }
  const bytes = new Map(engines.map((engine) => [engine, [bytesOfAnIdleActor(engine)]]));
  results.push(result('idle actor with its ref', 'bytes', bytes));
  show(results.at(-1));
  return results;
}

function show(line: Result | undefined): void {
  if (line === undefined) return;
  const { row, unit, ours: mine, peers } = line;
  // For bytes less is better; either way a ratio over 1 speaks for ours.
  const ratio = unit === 'bytes' ? peers.nact / mine : mine / peers.nact;
  print(row, mine.toLocaleString('en'), peers.nact.toLocaleString('en'), `x ${ratio.toPrecision(3)}`, unit);
}

function print(row: string, mine: string, theirs: string, ratio: string, unit: string): void {
  process.stdout.write(`${row.padEnd(44)}${mine.padStart(14)}${theirs.padStart(14)}${ratio.padStart(12)}  ${unit}\n`);
}

const rounds = Math.min(Math.max(Number(process.argv[2] ?? 3) || 3, 1), 10);
const machine = `${cpus()[0]?.model ?? 'unknown'} x ${cpus().length}, node ${process.version}`;
process.stdout.write(`${machine}, ${rounds} rounds\n`);
print('', 'ours', 'nact', 'ratio', '');
const measuredRows = await measure(rounds);
process.stdout.write(`${JSON.stringify({ bench: 'actors', machine, rows: measuredRows })}\n`);
