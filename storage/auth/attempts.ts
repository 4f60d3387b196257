/**
 * SQL of the login throttle: failures counted under a key, in one place for all nodes. The rules are those of
 * actors/auth/login/throttle-rules.ts.
 */
import { z } from 'zod';
import type { Queries, Tx } from '../db.ts';

const attemptRow = z
  .object({ key: z.string(), failures: z.number(), last_at: z.number(), blocked_until: z.number(), now: z.number() })
  .transform(({ last_at, blocked_until, ...row }) => ({ ...row, lastAt: last_at, blockedUntil: blocked_until }));

/** What is counted under a key; times in unix seconds. `now` is the database's, the one clock of all nodes. */
export type AttemptRow = z.output<typeof attemptRow>;

/**
 * The counts under `keys`, made where there was none, and held until the transaction ends: nobody else counts
 * meanwhile. The keys are taken in one order everywhere, so that no two wait for each other.
 */
export function holdAttempts(tx: Tx, keys: readonly string[]): Promise<AttemptRow[]> {
  return tx.many(
    attemptRow,
    `insert into login_attempts as a (key) select k from unnest($1::text[]) as k order by k collate "C"
     on conflict (key) do update set key = excluded.key
     returning key, failures, extract(epoch from last_at)::float8 as last_at,
       extract(epoch from blocked_until)::float8 as blocked_until, extract(epoch from clock_timestamp())::float8 as
       now`,
    [keys],
  );
}

/** Writes counts that are held. */
export async function writeAttempts(
  tx: Tx,
  counts: readonly Pick<AttemptRow, 'key' | 'failures' | 'lastAt' | 'blockedUntil'>[],
): Promise<void> {
  await tx.run(
    `update login_attempts a set failures = c.failures, last_at = to_timestamp(c.last_at), blocked_until =
      to_timestamp(c.blocked_until)
     from unnest($1::text[], $2::float8[], $3::float8[], $4::float8[]) as c (key, failures, last_at, blocked_until)
     where a.key = c.key`,
    [
      counts.map(({ key }) => key),
      counts.map(({ failures }) => failures),
      counts.map(({ lastAt }) => lastAt),
      counts.map(({ blockedUntil }) => blockedUntil),
    ],
  );
}

/** Forgets what is counted under a key. */
export async function clearAttempts(db: Queries, key: string): Promise<void> {
  await db.run('delete from login_attempts where key = $1', [key]);
}

/** Drops what a quiet hour has forgotten. Returns how many rows went. */
export function purgeAttempts(db: Queries): Promise<number> {
  return db.run(`delete from login_attempts where last_at < now() - interval '1 hour' and blocked_until < now()`);
}
