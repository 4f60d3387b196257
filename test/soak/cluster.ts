/**
 * Do the processes of a cluster behave as one platform, whatever happens to one of them?
 *
 * `npm run soak -- cluster [TRIALS] [PROCESSES] [STOP_SECONDS] [SEED]`: processes of `troupe auth` with a real nats-server and PostgreSQL,
 * each in a network namespace of its own (root). Users write and read all the time; a random process is killed, stands still, or is cut off
 * from NATS, PostgreSQL, both, in one direction, or from another process. Everything that clients were answered and everything that
 * storage took is judged at the end. Fails when a finding is left, or p99 of an entity's recovery is above 10 s after a kill, 15 s else.
 */
import { longTrials } from '../support/cluster/long-trials.ts';

await longTrials({
  trials: Number(process.argv[2] ?? 200),
  processes: Number(process.argv[3] ?? 5),
  stopSeconds: Number(process.argv[4] ?? 60),
  seed: Number(process.argv[5] ?? Date.now() % 100_000),
  goals: { kill: 10_000, stop: 15_000, partition: 15_000 },
});
