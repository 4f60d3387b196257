/** SQL of tokens that count once. */
import type { Queries } from '../db.ts';

/** Marks the token spent; false when it was already. Nobody can present it after `expiresAt` (unix seconds). */
export async function spendToken(db: Queries, id: string, expiresAt: number): Promise<boolean> {
  const rows = await db.run(
    'insert into spent_tokens (id, expires_at) values ($1, to_timestamp($2)) on conflict (id) do nothing',
    [id, expiresAt],
  );
  return rows === 1;
}

/** Forgets tokens that have expired an hour ago, so that clocks may differ. Returns how many went. */
export function purgeSpentTokens(db: Queries): Promise<number> {
  return db.run(`delete from spent_tokens where expires_at < now() - interval '1 hour'`);
}
