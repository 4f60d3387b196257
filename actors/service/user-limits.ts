/** How many things of a kind a user may have now, and what is said to who has them. */
import { Refusal } from '../../proto/errors.ts';
import { limitsCommand, type UserLimit, type UserLimits } from '../../proto/user-limits.ts';
import type { Queries } from '../../storage/db.ts';
import { givenLimit } from '../../storage/user-limits.ts';

/** A limit as it is now. */
export interface CurrentLimit {
  readonly most: number;
  /** When the operator changed it for this user, unix ms; 0: never. */
  readonly changedAt: number;
}

/** How many a user may have; `all`: what those may have for whom the operator set nothing. */
export async function currentLimit(
  db: Queries,
  all: UserLimits,
  userId: string,
  name: UserLimit,
): Promise<CurrentLimit> {
  const given = await givenLimit(db, userId, name);
  return { most: given?.most ?? all[name], changedAt: given?.changedAt.getTime() ?? 0 };
}

/** The refusal of one more. `things`: what they are called, such as `containers`. */
export function limitReached(username: string, name: UserLimit, most: number, things: string): Refusal {
  const first = most === 0 ? 'the operator' : 'delete one first, or the operator';
  return new Refusal('limit_reached', {
    message: `Your limit is ${most} ${things}: ${first} raises it with \`${limitsCommand(username, name)}\`.`,
  });
}
