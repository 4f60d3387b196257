/** SQL of owned domains: sealed provider tokens, and the zones they saw. */
import { z } from 'zod';
import type { Queries, Tx } from '../db.ts';
import { columnsOf, fieldsOf } from '../rows.ts';

/** What the sealed token of a row is bound to. */
export const tokenContext = (ownedDomainId: string) => `owned_domains/${ownedDomainId}/token`;

/** A zone as its provider names it; `name` is as DNS has it: lower case, without the last dot. */
interface ZoneRow {
  readonly zoneId: string;
  readonly name: string;
}

const ownedRow = z.object({
  id: z.string(),
  userId: z.string(),
  token: z.instanceof(Buffer),
  /** Null when its zones were never read. */
  zonesAt: z.date().nullable(),
  createdAt: z.date(),
  /** Names, sorted. */
  zones: z.array(z.string()),
});

/** An owned domain as stored. */
export type OwnedRow = z.output<typeof ownedRow>;

const ZONES = 'array(select z.name from owned_zones z where z.owned_domain_id = o.id order by z.name collate "C")';
const SELECT = `select ${columnsOf(ownedRow, { zones: ZONES }, 'o')} from owned_domains o`;

/** The user's owned domains, oldest first. */
export function ownedDomains(db: Queries, userId: string): Promise<OwnedRow[]> {
  return db.many(ownedRow, `${SELECT} where o.user_id = $1 order by o.created_at, o.id`, [userId]);
}

/** One of them; undefined when it is not this user's. */
export function ownedDomain(db: Queries, userId: string, id: string): Promise<OwnedRow | undefined> {
  return db.one(ownedRow, `${SELECT} where o.user_id = $1 and o.id = $2`, [userId, id]);
}

/** Adds an owned domain with the zones its token saw; false when the user has `limit` of them. */
export async function insertOwned(
  tx: Tx,
  owned: {
    readonly id: string;
    readonly userId: string;
    readonly token: Uint8Array;
    readonly zones: readonly ZoneRow[];
  },
  now: Date,
  limit: number,
): Promise<boolean> {
  // Two additions of one user at once must count each other.
  await tx.run(`select pg_advisory_xact_lock(hashtextextended('owned_domains/' || $1, 0))`, [owned.userId]);
  const added = await tx.run(
    `insert into owned_domains (id, user_id, token, zones_at, created_at)
     select $1, $2, $3, $4, $4 where (select count(*) from owned_domains where user_id = $2) < $5`,
    [owned.id, owned.userId, Buffer.from(owned.token), now, limit],
  );
  if (added === 0) return false;
  await writeZones(tx, owned.id, owned.zones);
  return true;
}

/** Replaces the zones of an owned domain by what its token sees now; false when it is gone. */
export async function replaceZones(tx: Tx, id: string, zones: readonly ZoneRow[], now: Date): Promise<boolean> {
  const found = await tx.run('update owned_domains set zones_at = $2 where id = $1', [id, now]);
  if (found === 0) return false;
  await tx.run('delete from owned_zones where owned_domain_id = $1', [id]);
  await writeZones(tx, id, zones);
  return true;
}

async function writeZones(tx: Tx, id: string, zones: readonly ZoneRow[]): Promise<void> {
  await tx.run(
    `insert into owned_zones (owned_domain_id, zone_id, name)
     select $1, zone_id, name from unnest($2::text[], $3::text[]) as g (zone_id, name)
     on conflict do nothing`,
    [id, ...fieldsOf(zones, 'zoneId', 'name')],
  );
}

/** Removes this user's domain with its token; mappings and records stay. Returns its zones' names, or undefined. */
export async function deleteOwned(tx: Tx, userId: string, id: string): Promise<readonly string[] | undefined> {
  const row = await ownedDomain(tx, userId, id);
  if (row === undefined) return undefined;
  const gone = await tx.run('delete from owned_domains where user_id = $1 and id = $2', [userId, id]);
  return gone === 1 ? row.zones : undefined;
}

/** Removes all owned domains of a user who has no mappings. */
export async function deleteOwnedOfUser(tx: Tx, userId: string): Promise<void> {
  await tx.run('delete from owned_domains where user_id = $1', [userId]);
}

const coverRow = z.object({
  ownedDomainId: z.string(),
  zoneId: z.string(),
  name: z.string(),
  token: z.instanceof(Buffer),
});

/** A zone that covers a hostname, with the sealed token that sees it. */
type CoveringZone = z.output<typeof coverRow>;

/** The longest of the user's zones in `names` (a hostname and its parents); of several tokens, the one read last. */
export function coveringZone(db: Queries, userId: string, names: readonly string[]): Promise<CoveringZone | undefined> {
  return db.one(
    coverRow,
    `select ${columnsOf(coverRow, { token: 'o.token' }, 'z')} from owned_zones z
     join owned_domains o on o.id = z.owned_domain_id
     where o.user_id = $1 and z.name = any($2::text[])
     order by length(z.name) desc, o.zones_at desc nulls last, o.id limit 1`,
    [userId, names],
  );
}
