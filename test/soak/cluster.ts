/**
 * Do the processes of a cluster behave as one platform, whatever happens to one of them?
 *
 * `npm run soak -- cluster [TRIALS] [PROCESSES] [STOP_SECONDS] [SEED]`: processes of `troupe auth` with a real nats-server and PostgreSQL,
 * each in a network namespace of its own (root). Users write and read all the time; a random process is killed, stands still, or is cut off
 * from NATS, PostgreSQL, both, in one direction, or from another process. Everything that clients were answered and everything that
 * storage took is judged at the end. Fails when a finding is left, or p99 of an entity's recovery is above 10 s after a kill, 15 s else.
 */
import { cpus, loadavg } from 'node:os';
import { seeded } from '../support/chaos/chaos.ts';
import { startChronicle } from '../support/cluster/chronicle.ts';
import { startCluster } from '../support/cluster/cluster.ts';
import { percentile, type Verdict } from '../support/cluster/history.ts';
import { addClients, Load } from '../support/cluster/load.ts';
import { type Kind, runTrials, type Trial } from '../support/cluster/trials.ts';

const [count, size, stopSeconds, seed] = [
  Number(process.argv[2] ?? 200),
  Number(process.argv[3] ?? 5),
  Number(process.argv[4] ?? 60),
  Number(process.argv[5] ?? Date.now() % 100_000),
];
const KINDS: readonly Kind[] = ['kill', 'stop', 'partition'];
const GOALS: Readonly<Record<Kind, number>> = { kill: 10_000, stop: 15_000, partition: 15_000 };
const CLIENTS = 40;

const out = (line: string) => process.stdout.write(`${line}\n`);
const seconds = (ms: number) => `${(ms / 1000).toFixed(1)} s`;
const load1 = () => `load ${(loadavg()[0] ?? 0).toFixed(1)}`;

out(
  `${size} processes, ${count} trials, ${stopSeconds} s stops, seed ${seed}; ${cpus().length} processors, ${load1()}`,
);
const random = seeded(seed);
const ends: (() => Promise<void> | void)[] = [];
let interrupted = false;
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => void end().then(() => process.exit(1)));
try {
  await main();
} finally {
  await end();
}

async function end(): Promise<void> {
  interrupted = true;
  for (let one = ends.pop(); one !== undefined; one = ends.pop()) await one();
}

async function main(): Promise<void> {
  const t = { after: (one: () => Promise<void> | void) => void ends.push(one) };
  const cluster = await startCluster(t, { size, started: 0 });
  const chronicle = await startChronicle(cluster.db);
  for (const member of cluster.members) await member.start();
  await cluster.settled();
  const clients = await addClients(cluster.db, cluster.front, chronicle, CLIENTS);
  const load = await Load.over({ front: cluster.front, chronicle, clients, pauseMs: 600 });
  const began = performance.now();
  load.start();
  const kinds = Array.from({ length: count }, (_, n) => KINDS[n % KINDS.length] ?? 'kill');
  const trials: Trial[] = [];
  try {
    await runTrials({
      ...{ cluster, load, kinds, stopMs: stopSeconds * 1000, random },
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
    if (!interrupted) for (const { number, log } of cluster.members) out(`--- process ${number}\n${log.slice(-3000)}`);
    throw error;
  }
  await load.stop();
  const verdict = await load.verdict();
  report(trials, verdict, load, performance.now() - began);
}

function report(trials: readonly Trial[], verdict: Verdict, load: Load, tookMs: number): void {
  out(`\n${trials.length} trials in ${(tookMs / 60_000).toFixed(1)} minutes`);
  for (const kind of KINDS) {
    // Processes do not talk to each other directly: cut off from one, nothing moves.
    const moved = trials.filter((trial) => trial.kind === kind && !trial.detail.startsWith('process'));
    const times = moved.flatMap(({ recoveries }) => recoveries);
    const p99 = percentile(times, 0.99);
    const isMissed = p99 > GOALS[kind];
    if (isMissed) process.exitCode = 1;
    out(
      `${kind.padEnd(10)} ${String(moved.length).padStart(4)} trials, ${String(times.length).padStart(4)} entities: answered elsewhere after ` +
        `p50 ${seconds(percentile(times, 0.5))}, p99 ${seconds(p99)}, most ${seconds(percentile(times, 1))}` +
        ` (goal p99 ${seconds(GOALS[kind])}${isMissed ? ', MISSED' : ''})`,
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
    `acknowledged and lost ${counted('lost') + counted('forgotten')}, duplicated ${counted('duplicated')}, of a fenced owner ${counted('fenced')}`,
  );
  const failures = new Map<string, number>();
  for (const failure of load.failures) failures.set(failure, (failures.get(failure) ?? 0) + 1);
  out('what came instead of an answer:');
  for (const [failure, times] of [...failures].sort((a, b) => b[1] - a[1]).slice(0, 10))
    out(`  ${times} times ${failure}`);
  for (const { fault, what } of findings.slice(0, 50)) out(`FAILED: ${fault}: ${what}`);
  if (findings.length > 0) process.exitCode = 1;
}
