/**
 * SQL of notifications that arrive: one transaction a batch (`store_notifications` of the migrations), one row an
 * event, ids that become visible in their order for each user.
 */
import { z } from 'zod';
import type { Notification } from '../../proto/notify/notification.ts';
import { type Db, isConstraint } from '../db.ts';
import { fieldsOf } from '../rows.ts';

/** A notification to store. */
export interface NewNotification extends Omit<Notification, 'metadata'> {
  /** Names the event for ever: of one user, each is stored once. */
  readonly eventId: string;
}

/** Stored under an id, `known` (it was stored before), `muted` by its user, or `no_user`: nobody has that id. */
type Arrival = { readonly id: number } | 'known' | 'muted' | 'no_user';

/** What became of a batch. */
export interface StoredArrivals {
  /** In the order of the batch. */
  readonly arrivals: readonly Arrival[];
  /** `created_at` of those stored now. */
  readonly at: Date;
  /** The highest id that users had before, 0 for none: of those asked for. */
  readonly heads: ReadonlyMap<string, number>;
}

const storedRow = z.object({
  stored_at: z.date(),
  stored_places: z.array(z.number()),
  stored_ids: z.array(z.number()),
  heads: z.array(z.number()),
});
const otherRow = z.object({ place: z.number(), is_user: z.boolean(), is_muted: z.boolean() });

/** What is asked of storing a batch. */
interface ArrivalsOptions {
  /** Whose heads are wanted: each costs about a quarter of what it costs to store a notification. */
  readonly headsOf: readonly string[];
  /** Look for events that were stored before. Without it they are looked for when the insert meets one. */
  readonly mayBeKnown: boolean;
}

/** Stores what is new, in order, all or none. */
export async function storeNotifications(
  db: Db,
  batch: readonly NewNotification[],
  options: ArrivalsOptions,
): Promise<StoredArrivals> {
  try {
    return await store(db, batch, options);
  } catch (error) {
    if (options.mayBeKnown || !isConstraint(error, 'notifications_event_key')) throw error;
    return store(db, batch, { ...options, mayBeKnown: true });
  }
}

async function store(
  db: Db,
  batch: readonly NewNotification[],
  { headsOf, mayBeKnown }: ArrivalsOptions,
): Promise<StoredArrivals> {
  const places = placesOfEvents(batch);
  const events = places.length === batch.length ? batch : places.flatMap((place) => batch[place] ?? []);
  const stored = await db.one(storedRow, 'select * from store_notifications($1, $2, $3, $4, $5, $6, $7, $8, $9)', [
    ...fieldsOf(events, 'userId', 'eventId', 'title', 'message', 'link', 'category', 'scope'),
    headsOf,
    mayBeKnown,
  ]);
  if (stored === undefined) throw new Error('storing notifications gave no answer');
  const arrivals: (Arrival | undefined)[] = Array(batch.length).fill(undefined);
  for (const [index, place] of stored.stored_places.entries()) {
    const [at, id] = [places[place - 1], stored.stored_ids[index]];
    if (at !== undefined && id !== undefined) arrivals[at] = { id };
  }
  const others = stored.stored_ids.length === batch.length ? undefined : await classify(db, batch);
  return {
    arrivals: arrivals.map((arrival, index) => arrival ?? others?.[index] ?? 'known'),
    at: stored.stored_at,
    heads: new Map(headsOf.map((userId, index) => [userId, stored.heads[index] ?? 0])),
  };
}

/** Where each event is first in the batch: a second of that name is its repetition. */
function placesOfEvents(batch: readonly NewNotification[]): number[] {
  const seen = new Set<string>();
  for (const { eventId } of batch) seen.add(eventId);
  if (seen.size === batch.length) return Array.from(batch.keys());
  seen.clear();
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

const IS_USER = '(select true from known_users as known where known.id = new.user_id)';
const IS_MUTED = `(select true from notification_mutes as mute where mute.user_id = new.user_id
  and mute.category = new.category and mute.scope in ('', new.scope) limit 1)`;

/** Why those that were not stored were not, as far as it is not that they were before. */
async function classify(db: Db, batch: readonly NewNotification[]): Promise<Arrival[]> {
  const rows = await db.tx(async (tx) => {
    // As store_notifications does.
    await tx.run('set local enable_seqscan = off');
    return tx.many(
      otherRow,
      `select place, coalesce(${IS_USER}, false) as is_user, coalesce(${IS_MUTED}, false) as is_muted
       from unnest($1::text[], $2::text[], $3::text[]) with ordinality as new (user_id, category, scope, place)
       order by place`,
      fieldsOf(batch, 'userId', 'category', 'scope'),
    );
  });
  return rows.map((row) => (row.is_user ? (row.is_muted ? 'muted' : 'known') : 'no_user'));
}
