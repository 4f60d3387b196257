/** SQL of what single users may have, where that is not what all may: services read it when they are asked for more. */
import { z } from 'zod';
import { LIMIT_NAMES, limitNameSchema, type UserLimit } from '../proto/user-limits.ts';
import type { Queries, Tx } from './db.ts';
import { oneValue } from './rows.ts';

const givenRow = z.object({ most: z.number().nullable(), changedAt: z.date() });
const limitRow = z.object({ userId: z.string(), name: limitNameSchema, most: z.number() });

/** What a user may have of one kind; `most` null: as all. Undefined: it was never changed. */
export function givenLimit(
  db: Queries,
  userId: string,
  name: UserLimit,
): Promise<z.output<typeof givenRow> | undefined> {
  const given = 'select most, changed_at as "changedAt" from user_limits where user_id = $1 and name = $2';
  return db.one(givenRow, given, [userId, name]);
}

/** Those of several users that are not as for all. */
export async function givenLimits(
  db: Queries,
  userIds: readonly string[],
): Promise<ReadonlyMap<string, ReadonlyMap<UserLimit, number>>> {
  const rows = await db.many(
    limitRow,
    `select user_id as "userId", name, most from user_limits
     where user_id = any($1) and name = any($2) and most is not null`,
    [userIds, LIMIT_NAMES],
  );
  const limits = new Map<string, Map<UserLimit, number>>();
  for (const { userId, name, most } of rows) limits.set(userId, (limits.get(userId) ?? new Map()).set(name, most));
  return limits;
}

/** Sets what a user may have; null: as all. The value before, or undefined when nothing changed. */
export async function setLimit(
  tx: Tx,
  userId: string,
  name: UserLimit,
  most: number | null,
): Promise<number | null | undefined> {
  const former = 'select most from user_limits where user_id = $1 and name = $2 for update';
  const before = (await oneValue(tx, z.number().nullable(), former, [userId, name])) ?? null;
  if (before === most) return undefined;
  await tx.run(
    `insert into user_limits (user_id, name, most) values ($1, $2, $3)
     on conflict (user_id, name) do update set most = excluded.most, changed_at = now()`,
    [userId, name, most],
  );
  return before;
}
