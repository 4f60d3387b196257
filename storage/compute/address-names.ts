/** SQL of address names: who has one, and for whom one that was given up is reserved. */
import { z } from 'zod';
import type { Queries, Tx } from '../db.ts';
import { oneValue } from '../rows.ts';
import { type ContainerRow, updateContainer } from './containers.ts';

/** Names that are free again and are forgotten in one go. */
const FORGOTTEN_AT_ONCE = 100;

const holderRow = z.object({
  userId: z.string(),
  /** Undefined: it was given up. */
  containerId: z.string().nullable(),
  containerName: z.string().nullable(),
  reservedUntil: z.date().nullable(),
});
/** Who has a name. */
export type NameHolder = z.output<typeof holderRow>;

const freedRow = z.object({ name: z.string(), reservedUntil: z.date() });
/** A name that its user has given up. */
export type FreedName = z.output<typeof freedRow>;

/** A container of a user, and when it is: names that are given up now are reserved until `until`. */
interface NameClaim {
  readonly id: string;
  readonly userId: string;
  readonly now: Date;
  readonly until: Date;
  /** Whether it may be one that the user gave up, whichever container had it. */
  readonly takesReserved: boolean;
}

/**
 * Gives a container the name, if nobody has it and it is not reserved, for another user or for this one unless
 * `takesReserved`; what it had before is given up. Whether it did. Of two at once one gets it: the other waits for the
 * end of the first one's transaction.
 */
export async function takeName(tx: Tx, name: string, claim: NameClaim): Promise<boolean> {
  const { id, userId, now, until, takesReserved } = claim;
  // Until the transaction ends no other name of this user is taken: they are counted.
  await tx.run(`select pg_advisory_xact_lock(hashtextextended('address_names/' || $1, 0))`, [userId]);
  const taken = await oneValue(
    tx,
    z.string(),
    `insert into address_names as a (name, user_id, container_id) values ($1, $2, $3)
     on conflict (name) do update set user_id = $2, container_id = $3, reserved_until = null
       where a.container_id is null and ((a.user_id = $2 and $5) or a.reserved_until <= $4) returning name`,
    [name, userId, id, now, takesReserved],
  );
  if (taken === undefined) return false;
  // After the other name, and only with it: so two who exchange theirs do not wait for each other.
  await giveUp(tx, id, until, name);
  await sweep(tx, now, until);
  return true;
}

/** Counts and forgets what was given up. Rows that others hold are passed over, so nobody is waited for. */
async function sweep(tx: Tx, now: Date, until: Date): Promise<void> {
  // A node of an earlier version removes containers without a word of their names.
  await tx.run(
    `update address_names set reserved_until = $1 where name in (select name from address_names
       where container_id is null and reserved_until is null for update skip locked)`,
    [until],
  );
  await tx.run(
    `delete from address_names where name in (select name from address_names
       where container_id is null and reserved_until <= $1 limit ${FORGOTTEN_AT_ONCE} for update skip locked)`,
    [now],
  );
}

/** The container has no name any more. The one it had stays its user's until then. */
export function freeName(tx: Tx, id: string, until: Date): Promise<unknown> {
  return giveUp(tx, id, until, '');
}

function giveUp(tx: Tx, id: string, until: Date, kept: string): Promise<unknown> {
  return tx.run(
    'update address_names set container_id = null, reserved_until = $2 where container_id = $1 and name <> $3',
    [id, until, kept],
  );
}

/** Who has a name; undefined: nobody. */
export function holderOf(db: Queries, name: string): Promise<NameHolder | undefined> {
  return db.one(
    holderRow,
    `select a.user_id as "userId", a.container_id as "containerId", c.name as "containerName",
       a.reserved_until as "reservedUntil" from address_names a left join containers c on c.id = a.container_id
     where a.name = $1`,
    [name],
  );
}

/** The names that a user has given up, those that are free first first. */
export function freedNames(db: Queries, userId: string): Promise<FreedName[]> {
  return db.many(
    freedRow,
    `select name, reserved_until as "reservedUntil" from address_names
     where user_id = $1 and container_id is null and reserved_until is not null order by reserved_until, name`,
    [userId],
  );
}

/** A name of a user: of a container, or given up. */
const ownedRow = z.object({ name: z.string(), containerId: z.string().nullable(), reservedUntil: z.date() });

/**
 * The names of a user at that time: those of containers first, then those that were given up, the first that is free
 * first. One whose time is still to be counted is reserved until `until`.
 */
export function ownedNames(
  db: Queries,
  { userId, now, until }: Pick<NameClaim, 'userId' | 'now' | 'until'>,
): Promise<z.output<typeof ownedRow>[]> {
  return db.many(
    ownedRow,
    `select name, container_id as "containerId", coalesce(reserved_until, $3) as "reservedUntil" from address_names
     where user_id = $1 and (container_id is not null or coalesce(reserved_until, $3) > $2)
     order by container_id is null, coalesce(reserved_until, $3), name`,
    [userId, now, until],
  );
}

/** Its row once its name is another: those who read what changed read it. Undefined when it is gone. */
export function touchContainer(tx: Tx, id: string): Promise<ContainerRow | undefined> {
  return updateContainer(tx, id, 'name = name');
}
