/** Many trials of a cluster under load, and what they showed: for scripts. */
import { cpus, loadavg } from 'node:os';
import { z } from 'zod';
import { seeded } from '../chaos/chaos.ts';
import { FENCED_LINE } from '../preload/fence-statements.ts';
import { residentMb } from '../process-state.ts';
import { preloaded } from '../project.ts';
import type { Cleanup } from '../temp.ts';
import { until } from '../until.ts';
import { startChronicle } from './chronicle.ts';
import { startCluster } from './cluster.ts';
import { percentile, type Verdict } from './history.ts';
import { addClients, Load } from './load.ts';
import { type Kind, runTrials, type Trial } from './trials.ts';

export interface LongTrials {
  readonly processes: number;
  readonly trials: number;
  readonly stopSeconds: number;
  /** So many processes are struck at the same time. Default: one. */
  readonly together?: number;
  readonly seed: number;
  /** Longest pause of a client between two requests, ms. Default 600. */
  readonly pauseMs?: number;
  /** What is done in turn, and the p99 of an entity's recovery that is asked for, ms. */
  readonly goals: Readonly<Partial<Record<Kind, number>>>;
  /** As that of a cluster. */
  readonly poolSize?: number;
}

const CLIENTS = 40;
/** Operations for each process before the first trial: a process that has just begun reads its code, and takes long. */
const WARM = 20;
const ALL_KINDS: readonly Kind[] = ['kill', 'stop', 'partition'];

const out = (line: string) => process.stdout.write(`${line}\n`);
const seconds = (ms: number) => `${(ms / 1000).toFixed(1)} s`;
const load1 = () => `load ${(loadavg()[0] ?? 0).toFixed(1)}`;

/** Makes them, prints them, and sets the exit code when one missed its goal or the judge found something. Ends also at a signal. */
export async function longTrials(options: LongTrials): Promise<void> {
  const { processes, trials, stopSeconds, together = 1, seed, pauseMs = 600 } = options;
  out(
    `${processes} processes, ${trials} trials, ${together} at the same time, ${stopSeconds} s stops, seed ${seed}, pauses to ${pauseMs} ms; ${cpus().length} processors, ${load1()}`,
  );
  const ends: (() => Promise<void> | void)[] = [];
  const interruption = { came: false };
  const end = async () => {
    interruption.came = true;
    for (let one = ends.pop(); one !== undefined; one = ends.pop()) await one();
  };
  for (const signal of ['SIGINT', 'SIGTERM'] as const)
    process.once(signal, () => void end().then(() => process.exit(1)));
  try {
    await run({ after: (one) => void ends.push(one) }, options, interruption);
  } finally {
    await end();
  }
}

const connectionsRow = z.object({ all: z.number(), own: z.number(), accepted: z.number() });
/** `own`: of the processes, without those of the pooler and of the test. */
const CONNECTIONS = `
  select count(*) as all, count(*) filter (where application_name like 'troupe/%' and application_name not like 'troupe/test%') as own,
    current_setting('max_connections')::int as accepted
  from pg_stat_activity where backend_type = 'client backend'`;

function kindsOf({ goals }: LongTrials): Kind[] {
  return ALL_KINDS.filter((kind) => goals[kind] !== undefined);
}

async function run(t: Cleanup, options: LongTrials, interruption: { readonly came: boolean }): Promise<void> {
  const { processes: size, trials: count, stopSeconds, together = 1, poolSize, pauseMs = 600 } = options;
  const cluster = await startCluster(t, {
    ...{ size, started: 0, nodeArgs: preloaded('shown-fence') },
    ...(poolSize === undefined ? {} : { poolSize }),
  });
  const chronicle = await startChronicle(cluster.db);
  const starting = performance.now();
  for (const member of cluster.members) await member.start();
  await cluster.settled();
  const { all = 0, own = 0, accepted = 0 } = (await cluster.db.one(connectionsRow, CONNECTIONS)) ?? {};
  out(
    `all hold shards after ${seconds(performance.now() - starting)} (${load1()}); ` +
      `of ${all} connections to PostgreSQL, which accepts ${accepted}, ${own} are of processes`,
  );
  const memory = cluster.members.map(({ pid }) => residentMb(pid));
  const sum = memory.reduce((all, one) => all + one, 0);
  out(`memory of processes: ${Math.round(sum)} MiB, of one ${Math.round(Math.max(...memory))} at most`);
  const clients = await addClients(cluster.db, cluster.front, chronicle, CLIENTS);
  const load = await Load.over({ front: cluster.front, chronicle, clients, pauseMs });
  const began = performance.now();
  load.start();
  await until(() => load.operations.length >= WARM * size, {
    what: 'every process has worked for a while',
    timeoutMs: 300_000,
  });
  const named = kindsOf(options);
  const random = seeded(options.seed);
  const kinds = Array.from({ length: count }, (_, n) => named[n % named.length] ?? 'kill');
  const trials: Trial[] = [];
  try {
    await runTrials({
      ...{ cluster, load, kinds, together, stopMs: stopSeconds * 1000, random },
      onTrial: (trial, n) => {
        trials.push(trial);
        const { kind, detail, victim, recoveries } = trial;
        const most = Math.max(...recoveries);
        out(
          `${String(n + 1).padStart(4)} ${kind}${detail && ` from ${detail}`}, process ${victim}: ` +
            `${recoveries.length} entities, slowest ${seconds(most)} (${load1()})`,
        );
      },
    });
  } catch (error) {
    if (!interruption.came)
      for (const { number, log } of cluster.members) out(`--- process ${number}\n${log.slice(-3000)}`);
    throw error;
  }
  await load.stop();
  const verdict = await load.verdict();
  const fenced = cluster.members.reduce((sum, { log }) => sum + log.split(FENCED_LINE).length - 1, 0);
  report(options, { trials, verdict, load, fenced, tookMs: performance.now() - began });
}

interface Outcome {
  readonly trials: readonly Trial[];
  readonly verdict: Verdict;
  readonly load: Load;
  /** Writes that the fence refused. */
  readonly fenced: number;
  readonly tookMs: number;
}

function report(options: LongTrials, { trials, verdict, load, fenced, tookMs }: Outcome): void {
  out(`\n${trials.length} trials in ${(tookMs / 60_000).toFixed(1)} minutes`);
  for (const kind of kindsOf(options)) {
    // Processes do not talk to each other directly: cut off from one, nothing moves.
    const moved = trials.filter((trial) => trial.kind === kind && !trial.detail.startsWith('process'));
    const times = moved.flatMap(({ recoveries }) => recoveries);
    const p99 = percentile(times, 0.99);
    const goal = options.goals[kind] ?? Number.POSITIVE_INFINITY;
    const isMissed = p99 > goal;
    if (isMissed) process.exitCode = 1;
    out(
      `${kind.padEnd(10)} ${String(moved.length).padStart(4)} trials, ${String(times.length).padStart(4)} entities: answered elsewhere after ` +
        `p50 ${seconds(percentile(times, 0.5))}, p99 ${seconds(p99)}, most ${seconds(percentile(times, 1))}` +
        ` (goal p99 ${seconds(goal)}${isMissed ? ', MISSED' : ''})`,
    );
  }
  const { findings, writes, reads, unknown, effects } = verdict;
  const refused = load.operations.filter(({ outcome }) => outcome === 'refused').length;
  out(
    `${load.operations.length} operations: ${writes} writes and ${reads} reads acknowledged, ${refused} refused, ${unknown} without a known end; ` +
      `${effects} writes stored`,
  );
  const counted = (fault: string) => findings.filter((finding) => finding.fault === fault).length;
  out(
    `acknowledged and lost ${counted('lost') + counted('forgotten')}, duplicated ${counted('duplicated')}; ` +
      `of a fenced owner ${counted('fenced')} accepted, ${fenced} refused by the fence`,
  );
  const failures = new Map<string, number>();
  for (const failure of load.failures) failures.set(failure, (failures.get(failure) ?? 0) + 1);
  out('what came instead of an answer:');
  for (const [failure, times] of [...failures].sort((a, b) => b[1] - a[1]).slice(0, 10))
    out(`  ${times} times ${failure}`);
  for (const { fault, what } of findings.slice(0, 50)) out(`FAILED: ${fault}: ${what}`);
  if (findings.length > 0) process.exitCode = 1;
}
