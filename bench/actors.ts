/**
 * How fast is the actor runtime, and how small is an actor, beside nact and Erlang/OTP?
 *
 * `npm run bench -- actors [ROUNDS] [WORDS]`: each row (or those whose name has WORDS) is measured in turns, ours then its peers, after one round to let the
 * compilers settle; medians, all on one core where taskset is. The handlers are the same functions in ours and nact, and
 * the same work in Erlang (actors/erlang, one scheduler). Sizes differ by engine so that no row takes long; all rows are
 * rates, except the bytes of an idle actor together with its ref.
 */
import { spawnSync } from 'node:child_process';
import { cpus } from 'node:os';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { errorText } from '../lib/errors.ts';
import { type Engine, type EngineRef, type Handler, nact, ours } from './actors/engines.ts';
import { startErlang } from './actors/erlang.ts';
import { type Row, rows } from './actors/rows.ts';

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
  /** The median, or why there is none. */
  readonly ours: number | string;
  readonly peers: Readonly<Record<string, number | string>>;
}

async function measure(row: string, unit: string, by: Map<string, () => Promise<number>>, rounds: number) {
  const seen = new Map<string, number[]>();
  for (const name of by.keys()) seen.set(name, []);
  const failures = new Map<string, string>();
  for (let round = 0; round <= rounds; round++) {
    for (const [name, once] of by) {
      if (failures.has(name)) continue;
      try {
        const measured = await once();
        if (round > 0) seen.get(name)?.push(measured);
      } catch (error) {
        // A peer may not keep up: the table says so, and goes on.
        failures.set(name, `failed: ${errorText(error)}`);
      }
    }
  }
  const medians = [...seen].map(([name, rates]) => [name, failures.get(name) ?? Math.round(median(rates))] as const);
  const peers = Object.fromEntries(medians.filter(([name]) => name !== 'ours'));
  const result: Result = { row, unit, ours: new Map(medians).get('ours') ?? 'none', peers };
  show(result);
  return result;
}

async function measureAll(rounds: number, words: string): Promise<Result[]> {
  const results: Result[] = [];
  for (const row of rows) {
    if (row.row.includes(words)) results.push(await measure(row.row, row.unit, contenders(row), rounds));
  }
  const sizes = new Map<string, () => Promise<number>>();
  for (const engine of [ours, nact]) sizes.set(engine.name, async () => bytesOfAnIdleActor(engine));
  if (erlang !== undefined) sizes.set('erlang', () => erlang.measure('bytes', 200_000));
  results.push(await measure('idle actor with its ref', 'bytes', sizes, 1));
  return results;
}

function show({ row, unit, ours: mine, peers }: Result): void {
  const cells = [row.padEnd(56), mine.toLocaleString('en').padStart(12)];
  for (const [name, theirs] of Object.entries(peers)) {
    if (typeof theirs === 'string' || typeof mine === 'string') {
      cells.push(` ${name} ${theirs.toLocaleString('en')}`);
      continue;
    }
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
  const measured = await measureAll(rounds, process.argv[3] ?? '');
  process.stdout.write(`${JSON.stringify({ bench: 'actors', machine, rows: measured })}\n`);
} finally {
  erlang?.end();
}
