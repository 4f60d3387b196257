/** SQL of the login throttle (design.md, section 9: 5 failures for a user and address, then growing waits, cluster-wide). */
import { z } from 'zod';
import type { Queries } from '../db.ts';

/** Failures before a wait is asked for. */
export const FREE_ATTEMPTS = 5;
/** Longest wait, seconds. */
export const MAX_WAIT = 900;

const attemptRow = z.object({ allowed: z.boolean(), wait: z.number() });

/**
 * Counts an attempt before its password is looked at, so that many at once cannot all slip through. Returns whether it may
 * go on, else how many seconds to wait. From the fifth attempt on, each one blocks the next for 1, 2, 4 ... seconds.
 * An attempt that was refused is not counted. A quiet hour forgets everything. "Not blocked" is a time long past: of two attempts at
 * once, each with its own now(), the one that began first may come second.
 */
export async function chargeAttempt(
  db: Queries,
  username: string,
  address: string,
): Promise<{ allowed: boolean; wait: number }> {
  const row = await db.one(
    attemptRow,
    `with old as (
       select attempts, blocked_until from login_attempts where username = $1 and address = $2
     ), charged as (
       insert into login_attempts as a (username, address, attempts, blocked_until) values ($1, $2, 1, 'epoch')
       on conflict (username, address) do update set
         attempts = case when a.last_at < now() - interval '1 hour' then 1 else a.attempts + 1 end,
         blocked_until = case
           when a.last_at < now() - interval '1 hour' or a.attempts + 1 < $3::int then 'epoch'
           else now() + make_interval(secs => least($4::float8, power(2, least(a.attempts + 1 - $3::int, 20)))) end,
         last_at = now()
       where a.blocked_until <= now()
       returning 1
     )
     select exists (select from charged) as allowed,
       coalesce((select greatest(1, ceil(extract(epoch from blocked_until - now())))::int from old), 1) as wait`,
    [username, address, FREE_ATTEMPTS, MAX_WAIT],
  );
  if (row === undefined) return { allowed: false, wait: 1 };
  return { allowed: row.allowed, wait: Math.max(1, row.wait) };
}

/** Forgets the attempts after the right password. */
export async function clearAttempts(db: Queries, username: string, address: string): Promise<void> {
  await db.run('delete from login_attempts where username = $1 and address = $2', [username, address]);
}

/** Drops what a quiet day has forgotten. Returns how many rows went. */
export function purgeAttempts(db: Queries): Promise<number> {
  return db.run(`delete from login_attempts where last_at < now() - interval '1 day'`);
}
