/** SQL of notifications that arrive: one transaction a batch, one row an event, ids that become visible in their order. */
import { z } from 'zod';
import type { Db, Tx } from '../db.ts';

/** A notification to store. */
export interface NewNotification {
  readonly userId: string;
  /** Names the event for ever: of one user, each is stored once. */
  readonly eventId: string;
  readonly title: string;
  readonly message: string;
  readonly link: string;
  readonly category: string;
  readonly scope: string;
}

/** What became of one: stored under an id; `known`: it was stored before; `muted`: its user does not want it; `no_user`: nobody has that id. */
export type Arrival = { readonly id: number } | 'known' | 'muted' | 'no_user';

/** What became of a batch. */
export interface Arrivals {
  /** In the order of the batch. */
  readonly arrivals: readonly Arrival[];
  /** `created_at` of those stored now. */
  readonly at: Date;
  /** The highest id each user had before, 0 for none. Of users of the batch. */
  readonly heads: ReadonlyMap<string, number>;
}

const turnRow = z.object({ last_at: z.date() });
const headRow = z.object({ user_id: z.string(), head: z.number() });
const storedRow = z.object({ id: z.number(), user_id: z.string(), event_id: z.string() });
const otherRow = z.object({ place: z.number(), is_user: z.boolean(), is_muted: z.boolean() });

/** Stores what is new, in order, all or none. */
export function storeNotifications(db: Db, batch: readonly NewNotification[]): Promise<Arrivals> {
  return db.tx(async (tx) => {
    // The lookups below are by user, up to 500 a batch. While statistics say that the table is small, the planner may choose to read all of
    // it for each of them; through the index they cost about the same then, and stay cheap while it grows.
    const turn = await tx.one(
      turnRow,
      `update notification_turn set last_at = greatest(last_at, clock_timestamp())
       returning last_at, set_config('enable_seqscan', 'off', true)`,
    );
    if (turn === undefined) throw new Error('the row of notification_turn is gone');
    // A statement of its own: it sees what was committed before the turn came.
    const heads = await headsOf(tx, [...new Set(batch.map(({ userId }) => userId))]);
    const stored = await insert(tx, batch, turn.last_at);
    const ids = new Map(stored.map((row) => [keyOf(row.user_id, row.event_id), row.id]));
    const others = stored.length === batch.length ? new Map<number, Arrival>() : await classify(tx, batch);
    const arrivals = batch.map((one, index): Arrival => {
      const key = keyOf(one.userId, one.eventId);
      const id = ids.get(key);
      if (id === undefined) return others.get(index) ?? 'known';
      // A second event of that name in the same batch is the first one's repetition.
      ids.delete(key);
      return { id };
    });
    return { arrivals, at: turn.last_at, heads };
  });
}

// Neither a user id nor an event id holds a NUL.
const keyOf = (userId: string, eventId: string) => `${userId}\0${eventId}`;

async function headsOf(tx: Tx, userIds: readonly string[]): Promise<Map<string, number>> {
  const rows = await tx.many(
    headRow,
    `select user_id, coalesce((select max(id) from notifications where user_id = wanted.user_id), 0) as head
     from unnest($1::text[]) as wanted (user_id)`,
    [userIds],
  );
  return new Map(rows.map(({ user_id, head }) => [user_id, head]));
}

function insert(tx: Tx, batch: readonly NewNotification[], at: Date): Promise<z.output<typeof storedRow>[]> {
  return tx.many(
    storedRow,
    `insert into notifications (user_id, event_id, title, message, link, category, scope, created_at)
     select new.user_id, event_id, title, message, link, new.category, new.scope, $8
     from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[])
       with ordinality as new (user_id, event_id, title, message, link, category, scope, place)
     where exists (select from users where users.id = new.user_id)
       and not exists (select from notification_mutes as mute where mute.user_id = new.user_id
         and mute.category = new.category and mute.scope in ('', new.scope))
     order by place
     on conflict on constraint notifications_event_key do nothing
     returning id, user_id, event_id`,
    [
      batch.map(({ userId }) => userId),
      batch.map(({ eventId }) => eventId),
      batch.map(({ title }) => title),
      batch.map(({ message }) => message),
      batch.map(({ link }) => link),
      batch.map(({ category }) => category),
      batch.map(({ scope }) => scope),
      at,
    ],
  );
}

/** Why those that were not stored were not. */
async function classify(tx: Tx, batch: readonly NewNotification[]): Promise<Map<number, Arrival>> {
  const rows = await tx.many(
    otherRow,
    `select place, exists (select from users where users.id = new.user_id) as is_user,
       exists (select from notification_mutes as mute where mute.user_id = new.user_id
         and mute.category = new.category and mute.scope in ('', new.scope)) as is_muted
     from unnest($1::text[], $2::text[], $3::text[]) with ordinality as new (user_id, category, scope, place)`,
    [batch.map(({ userId }) => userId), batch.map(({ category }) => category), batch.map(({ scope }) => scope)],
  );
  return new Map(rows.map((row) => [row.place - 1, row.is_user ? (row.is_muted ? 'muted' : 'known') : 'no_user']));
}
