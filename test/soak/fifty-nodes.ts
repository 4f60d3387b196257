/**
 * Do many processes hold together behind a pooler?
 *
 * `npm run soak -- fifty-nodes [PROCESSES] [TRIALS] [STOP_SECONDS] [SEED] [TOGETHER] [PAUSE_MS]`: as `cluster`, with
 * 50 processes that work through a real PgBouncer in transaction mode (Debian package `pgbouncer`), of which one is
 * killed or stands still, or so many at the same time. PostgreSQL accepts its default of 100 connections: one of each
 * process goes past the pooler. Each client pauses for PAUSE_MS (600) at most between two requests: on a machine that
 * is busy all the time, longer pauses show how soon one process takes over from another, and not how long requests
 * wait. Fails when a finding is left, or p99 of an entity's recovery is above 10 s.
 */
import { longTrials } from '../support/cluster/long-trials.ts';

await longTrials({
  processes: Number(process.argv[2] ?? 50),
  trials: Number(process.argv[3] ?? 200),
  stopSeconds: Number(process.argv[4] ?? 20),
  seed: Number(process.argv[5] ?? Date.now() % 100_000),
  together: Number(process.argv[6] ?? 1),
  pauseMs: Number(process.argv[7] ?? 600),
  goals: { kill: 10_000, stop: 10_000 },
  poolSize: 20,
});
