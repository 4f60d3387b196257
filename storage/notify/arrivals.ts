/** SQL of notifications that arrive: one transaction a batch, one row an event, ids that become visible in their order. */
import { z } from 'zod';
import { type Db, isConstraint, type Tx } from '../db.ts';

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
  /** The highest id that users had before, 0 for none: of those asked for. */
  readonly heads: ReadonlyMap<string, number>;
}

const turnRow = z.object({ last_at: z.date() });
const storedRow = z.object({ places: z.array(z.number()), ids: z.array(z.number()), heads: z.array(z.number()) });
const otherRow = z.object({ place: z.number(), is_user: z.boolean(), is_muted: z.boolean() });

/** What is asked of storing a batch. */
export interface StoreOptions {
  /** Whose heads are wanted: each costs about a quarter of what it costs to store a notification. */
  readonly headsOf: readonly string[];
  /** Look for events that were stored before. Without it they are looked for when the insert meets one. */
  readonly mayBeKnown: boolean;
}

/** Stores what is new, in order, all or none. */
export async function storeNotifications(
  db: Db,
  batch: readonly NewNotification[],
  options: StoreOptions,
): Promise<Arrivals> {
  try {
    return await store(db, batch, options);
  } catch (error) {
    if (options.mayBeKnown || !isConstraint(error, 'notifications_event_key')) throw error;
    return store(db, batch, { ...options, mayBeKnown: true });
  }
}

function store(db: Db, batch: readonly NewNotification[], { headsOf, mayBeKnown }: StoreOptions): Promise<Arrivals> {
  const places = placesOfEvents(batch);
  const events = places.length === batch.length ? batch : places.flatMap((place) => batch[place] ?? []);
  return db.tx(async (tx) => {
    // The lookups below are by user. While statistics say that a table is small, the planner may choose to read all of it for each of them;
    // through the index they cost about the same then, and stay cheap while it grows.
    const turn = await tx.one(
      turnRow,
      `update notification_turn set last_at = greatest(last_at, clock_timestamp())
       returning last_at, set_config('enable_seqscan', 'off', true)`,
    );
    if (turn === undefined) throw new Error('the row of notification_turn is gone');
    // A statement of its own: it sees what was committed before the turn came.
    const stored = await insert(tx, events, turn.last_at, headsOf, mayBeKnown);
    const arrivals: (Arrival | undefined)[] = Array(batch.length).fill(undefined);
    for (const [index, place] of stored.places.entries()) {
      const [at, id] = [places[place - 1], stored.ids[index]];
      if (at !== undefined && id !== undefined) arrivals[at] = { id };
    }
    const others = stored.ids.length === batch.length ? undefined : await classify(tx, batch);
    return {
      arrivals: arrivals.map((arrival, index) => arrival ?? others?.[index] ?? 'known'),
      at: turn.last_at,
      heads: new Map(headsOf.map((userId, index) => [userId, stored.heads[index] ?? 0])),
    };
  });
}

/** Where each event is first in the batch: a second of that name is its repetition. */
function placesOfEvents(batch: readonly NewNotification[]): number[] {
  const seen = new Set<string>();
  const places: number[] = [];
  for (const [place, { userId, eventId }] of batch.entries()) {
    // Neither id holds a NUL.
    const key = `${userId}\0${eventId}`;
    if (seen.has(key)) continue;
    seen.add(key);
    places.push(place);
  }
  return places;
}

const IS_USER = '(select true from users where users.id = new.user_id)';
const IS_MUTED = `(select true from notification_mutes as mute where mute.user_id = new.user_id
  and mute.category = new.category and mute.scope in ('', new.scope) limit 1)`;
const IS_KNOWN = `(select true from notifications as old where old.user_id = new.user_id and old.event_id = new.event_id)`;

/** Ids are given in the order of the batch. Subqueries in brackets are looked up row by row, whatever the planner thinks of the tables. */
function insertText(mayBeKnown: boolean): string {
  return `with new as materialized (
      select nextval('notifications_id_seq') as id, new.*
      from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[])
        with ordinality as new (user_id, event_id, title, message, link, category, scope, place)
      where ${IS_USER} and ${IS_MUTED} is null ${mayBeKnown ? `and ${IS_KNOWN} is null` : ''}
      order by place
    ), stored as (
      insert into notifications (id, user_id, event_id, title, message, link, category, scope, created_at)
      overriding system value
      select id, user_id, event_id, title, message, link, category, scope, $8 from new
    )
    select coalesce(array_agg(place), '{}') as places, coalesce(array_agg(id), '{}') as ids,
      array(select coalesce((select max(id) from notifications where user_id = wanted.user_id), 0)
        from unnest($9::text[]) with ordinality as wanted (user_id, place) order by wanted.place) as heads
    from new`;
}
const INSERT = insertText(false);
const INSERT_UNKNOWN = insertText(true);

async function insert(
  tx: Tx,
  batch: readonly NewNotification[],
  at: Date,
  headsOf: readonly string[],
  mayBeKnown: boolean,
): Promise<z.output<typeof storedRow>> {
  const row = await tx.one(storedRow, mayBeKnown ? INSERT_UNKNOWN : INSERT, [
    batch.map(({ userId }) => userId),
    batch.map(({ eventId }) => eventId),
    batch.map(({ title }) => title),
    batch.map(({ message }) => message),
    batch.map(({ link }) => link),
    batch.map(({ category }) => category),
    batch.map(({ scope }) => scope),
    at,
    headsOf,
  ]);
  if (row === undefined) throw new Error('storing notifications gave no answer');
  return row;
}

/** Why those that were not stored were not, as far as it is not that they were before. */
async function classify(tx: Tx, batch: readonly NewNotification[]): Promise<Arrival[]> {
  const rows = await tx.many(
    otherRow,
    `select place, coalesce(${IS_USER}, false) as is_user, coalesce(${IS_MUTED}, false) as is_muted
     from unnest($1::text[], $2::text[], $3::text[]) with ordinality as new (user_id, category, scope, place)
     order by place`,
    [batch.map(({ userId }) => userId), batch.map(({ category }) => category), batch.map(({ scope }) => scope)],
  );
  return rows.map((row) => (row.is_user ? (row.is_muted ? 'muted' : 'known') : 'no_user'));
}
