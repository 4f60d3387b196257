/**
 * SQL of domain mappings. A hostname is claimed once on the whole platform: by a verified mapping, or by a pending one.
 * A lock of the hostname holds that under any race, and the table that one at most is verified and that each user has
 * one at most. No index holds it of pending ones: a node of the version before may still put a second one beside the
 * first, which then ends like any that was not proven first.
 */
import { z } from 'zod';
import { type CacheMode, cacheModeSchema } from '../../proto/gateway/cache-mode.ts';
import { mappingStatusSchema } from '../../proto/network/endpoints.ts';
import type { HeldShards } from '../../proto/ports/placement.ts';
import type { Queries, Tx } from '../db.ts';
import { ofShards } from '../placement/shards.ts';
import { columnsOf, manyValues, oneValue } from '../rows.ts';
import { tellNetwork } from './news.ts';

/** Longest detail that is kept, in characters. */
const MAX_DETAIL = 1000;

const mappingRow = z.object({
  id: z.string(),
  userId: z.string(),
  hostname: z.string(),
  containerId: z.string(),
  targetPort: z.number(),
  status: mappingStatusSchema,
  cache: cacheModeSchema,
  verifyToken: z.string(),
  /** The DNS zone that holds the hostname; empty while it is not known. */
  zone: z.string(),
  /** What the last check looked up and found, for the user; empty when there is nothing to say. */
  detail: z.string(),
  /** What its certificate waits for, for the user; empty when there is nothing to say. */
  certificateDetail: z.string(),
  pendingSince: z.date(),
  /** Checks since it turned pending. */
  checks: z.number(),
  nextCheckAt: z.date().nullable(),
  /** Since when a verified one has lacked its proof; null while it stands. */
  unprovenSince: z.date().nullable(),
  /** The record at the DNS provider: `wanted`, `made` by us or `found` there; null when the user sees to DNS. */
  record: z.enum(['wanted', 'made', 'found']).nullable(),
  ownedDomainId: z.string().nullable(),
  zoneId: z.string().nullable(),
  recordId: z.string().nullable(),
  createdAt: z.date(),
  /** When its proof was looked for last. */
  checkedAt: z.date().nullable(),
  /** Until when its hostname has a certificate. */
  certificateUntil: z.date().nullable(),
});

/** A mapping as stored. */
export type MappingRow = z.output<typeof mappingRow>;

const COLUMNS = columnsOf(mappingRow, {
  hostname: 'domain',
  certificateUntil: '(select not_after from certificates c where c.hostname = domain and c.chain is not null)',
});

/** Changes a mapping that has the status `from`. The mapping as it is then; undefined when it has another. */
function updateMapping(
  db: Queries,
  id: string,
  from: MappingRow['status'],
  set: string,
  values: readonly unknown[],
): Promise<MappingRow | undefined> {
  const update = `update domain_mappings set ${set} where id = $1 and status = '${from}' returning ${COLUMNS}`;
  return db.one(mappingRow, update, [id, ...values]);
}

/** One mapping; undefined when there is none. */
export function mappingById(db: Queries, id: string): Promise<MappingRow | undefined> {
  return db.one(mappingRow, `select ${COLUMNS} from domain_mappings where id = $1`, [id]);
}

/** The user's mappings, oldest first. */
export function mappingsOfUser(db: Queries, userId: string): Promise<MappingRow[]> {
  const own = `select ${COLUMNS} from domain_mappings where user_id = $1 order by created_at, id`;
  return db.many(mappingRow, own, [userId]);
}

/** What a new mapping needs. With `zone` its record is `wanted`. */
export interface NewMapping {
  readonly id: string;
  readonly userId: string;
  readonly hostname: string;
  readonly containerId: string;
  readonly targetPort: number;
  readonly verifyToken: string;
  /** Absent: `default`. */
  readonly cache?: CacheMode;
  readonly zone?: { readonly ownedDomainId: string; readonly zoneId: string } | undefined;
}

/** Whoever decides whose a hostname is waits here for the others, until `tx` ends. */
async function holdHostname(tx: Tx, hostname: string): Promise<void> {
  await tx.run(`select pg_advisory_xact_lock(hashtextextended('domain_mappings/of/' || $1, 0))`, [hostname]);
}

/** Whether somebody has proven the hostname. */
async function isProvenBySomebody(tx: Tx, hostname: string): Promise<boolean> {
  return (await tx.run(`select from domain_mappings where domain = $1 and status = 'verified'`, [hostname])) > 0;
}

/** When a claim begins, and what gives way to it. */
export interface ClaimTerms {
  readonly now: Date;
  readonly nextCheckAt: Date;
  /** What has been pending since then, or longer, holds the hostname no more. */
  readonly expiredSince: Date;
  /** Whether the claim is proven: it displaces what others have pending. */
  readonly isProven: boolean;
  /** What the users are told whose claims give way: of displaced ones, and of expired ones. */
  readonly says: { readonly displaced: string; readonly expired: string };
}

/** A claim that began, and those of others that gave way to it. */
interface Claimed {
  readonly row: MappingRow;
  readonly ended: readonly MappingRow[];
}

/** Why not. `taken`: the hostname is verified, or the user claims it already; `held`: another user claims it. */
type NotClaimed = 'taken' | 'held';

/** Ends, with `$3` as what their users are told, the claims of a hostname that are pending and not of the user `$2`. */
const END_OTHERS = `update domain_mappings set status = 'failed', next_check_at = null, detail = $3
  where domain = $1 and user_id <> $2 and status = 'pending'`;

const liveRow = z.object({ userId: z.string(), status: mappingStatusSchema, pendingSince: z.date() });

/** Waits for the hostname and makes room for a claim of the user. The claims that ended, or why there is no room. */
async function makeRoom(
  tx: Tx,
  { hostname, userId }: Pick<MappingRow, 'hostname' | 'userId'>,
  { expiredSince, isProven, says }: ClaimTerms,
): Promise<readonly MappingRow[] | NotClaimed> {
  await holdHostname(tx, hostname);
  const live = await tx.many(
    liveRow,
    `select ${columnsOf(liveRow)} from domain_mappings where domain = $1 and status <> 'failed'`,
    [hostname],
  );
  if (live.some((claim) => claim.status === 'verified' || claim.userId === userId)) return 'taken';
  if (!isProven && live.some(({ pendingSince }) => pendingSince > expiredSince)) return 'held';
  if (live.length === 0) return [];
  const end = (rest: string, detail: string) =>
    tx.many(mappingRow, `${END_OTHERS} ${rest} returning ${COLUMNS}`, [hostname, userId, detail, expiredSince]);
  const expired = await end('and pending_since <= $4', says.expired);
  return [...expired, ...(await end('and pending_since > $4', says.displaced))];
}

/**
 * Adds a mapping, pending; `full` when the user has `limit` of them. A failed one of the user's own gives way. What is
 * refused is rolled back by the caller.
 */
export async function insertMapping(
  tx: Tx,
  mapping: NewMapping,
  terms: ClaimTerms,
  limit: number,
): Promise<Claimed | NotClaimed | 'full'> {
  // Two additions of one user at once must count each other.
  await tx.run(`select pg_advisory_xact_lock(hashtextextended('domain_mappings/' || $1, 0))`, [mapping.userId]);
  const { hostname } = mapping;
  const ended = await makeRoom(tx, mapping, terms);
  if (typeof ended === 'string') return ended;
  const failed = await oneValue(
    tx,
    z.string(),
    `delete from domain_mappings where domain = $1 and user_id = $2 and status = 'failed' returning id`,
    [hostname, mapping.userId],
  );
  if (failed !== undefined) await tellNetwork(tx, { kind: 'removed', mappingId: failed, hostname });
  if ((await countMappings(tx, mapping.userId)) >= limit) return 'full';
  const { zone } = mapping;
  const row = await tx.one(
    mappingRow,
    `insert into domain_mappings (id, user_id, domain, container_id, target_port, status, verify_token, pending_since,
       next_check_at, record, owned_domain_id, zone_id, cache, created_at)
     values ($1, $2, $3, $4, $5, 'pending', $6, $7, $8, $9, $10, $11, $12, $7)
     on conflict (domain, user_id) do nothing returning ${COLUMNS}`,
    [
      mapping.id,
      mapping.userId,
      hostname,
      mapping.containerId,
      mapping.targetPort,
      mapping.verifyToken,
      terms.now,
      terms.nextCheckAt,
      zone === undefined ? null : 'wanted',
      zone?.ownedDomainId ?? null,
      zone?.zoneId ?? null,
      mapping.cache ?? 'default',
    ],
  );
  return row === undefined ? 'taken' : { row, ended };
}

/** What a look for the proof came to, and when the next one is due. */
interface CheckNote {
  readonly now: Date;
  readonly detail: string;
  readonly checks: number;
  readonly nextCheckAt: Date;
}

/** A claim that was proven, and those of others that it ended. */
interface Proven {
  readonly row: MappingRow;
  readonly displaced: readonly MappingRow[];
}

/**
 * Turns a pending mapping verified, to be looked at again at `nextCheckAt` (null: never), and fails the pending ones of
 * all others, with `lost` as their detail. Of two proofs at once the first wins: the other fails, and `taken` is
 * returned. Undefined when it is not pending any more.
 */
export async function verifyMapping(
  tx: Tx,
  id: string,
  now: Date,
  { lost = '', nextCheckAt = null }: { readonly lost?: string; readonly nextCheckAt?: Date | null } = {},
): Promise<Proven | 'taken' | undefined> {
  const claim = await mappingById(tx, id);
  if (claim === undefined) return undefined;
  const { hostname } = claim;
  await holdHostname(tx, hostname);
  if (await isProvenBySomebody(tx, hostname))
    return (await failMapping(tx, id, lost)) === undefined ? undefined : 'taken';
  const row = await updateMapping(
    tx,
    id,
    'pending',
    `status = 'verified', verified_at = $2, checked_at = $2, next_check_at = $3, unproven_since = null, detail = ''`,
    [now, nextCheckAt],
  );
  if (row === undefined) return undefined;
  await tellNetwork(tx, { kind: 'verified', mappingId: id, hostname });
  const displaced = await tx.many(mappingRow, `${END_OTHERS} returning ${COLUMNS}`, [
    hostname,
    row.userId,
    lost.slice(0, MAX_DETAIL),
  ]);
  return { row, displaced };
}

/** Stores a look at a verified mapping: since when its proof is missing (null: it is there); what its user is told. */
export async function noteProof(
  db: Queries,
  id: string,
  look: Omit<CheckNote, 'checks'> & { readonly unprovenSince: Date | null },
): Promise<void> {
  await db.run(
    `update domain_mappings set unproven_since = $2, detail = $3, next_check_at = $4, checked_at = $5
     where id = $1 and status = 'verified'`,
    [id, look.unprovenSince, look.detail.slice(0, MAX_DETAIL), look.nextCheckAt, look.now],
  );
}

/** Fails a verified mapping whose proof is gone; it is served no more. Undefined when it is not verified any more. */
export async function lapseMapping(tx: Tx, id: string, detail: string): Promise<MappingRow | undefined> {
  const row = await updateMapping(
    tx,
    id,
    'verified',
    `status = 'failed', verified_at = null, next_check_at = null, unproven_since = null, detail = $2,
       certificate_detail = ''`,
    [detail.slice(0, MAX_DETAIL)],
  );
  if (row !== undefined) await tellNetwork(tx, { kind: 'removed', mappingId: id, hostname: row.hostname });
  return row;
}

/** Says what gateways keep of the answers at a hostname; undefined when the mapping is gone. */
export async function setMappingCache(tx: Tx, id: string, cache: CacheMode): Promise<MappingRow | undefined> {
  const update = `update domain_mappings set cache = $2 where id = $1 returning ${COLUMNS}`;
  const row = await tx.one(mappingRow, update, [id, cache]);
  if (row?.status === 'verified') await tellNetwork(tx, { kind: 'changed', mappingId: id, hostname: row.hostname });
  return row;
}

/** Writes down which zone holds the hostname. */
export async function setZone(tx: Queries, id: string, zone: string): Promise<void> {
  await tx.run('update domain_mappings set zone = $2 where id = $1', [id, zone]);
}

/** Writes down what became of the record at the provider. */
export async function setRecord(
  tx: Queries,
  id: string,
  record: { readonly kind: 'made' | 'found'; readonly recordId: string } | 'refused',
): Promise<void> {
  await tx.run(
    `update domain_mappings set record = $2, record_id = $3 where id = $1`,
    record === 'refused' ? [id, null, null] : [id, record.kind, record.recordId],
  );
}

/** Stores a check without a proof, and when the next is due; undefined when the mapping is not pending any more. */
export function noteCheck(
  db: Queries,
  id: string,
  { now, detail, checks, nextCheckAt }: CheckNote,
): Promise<MappingRow | undefined> {
  const set = 'detail = $2, checks = $3, next_check_at = $4, checked_at = $5';
  return updateMapping(db, id, 'pending', set, [detail.slice(0, MAX_DETAIL), checks, nextCheckAt, now]);
}

/** Turns a pending mapping failed; undefined when it is not pending any more. */
export function failMapping(db: Queries, id: string, detail: string): Promise<MappingRow | undefined> {
  const set = `status = 'failed', next_check_at = null, detail = $2`;
  return updateMapping(db, id, 'pending', set, [detail.slice(0, MAX_DETAIL)]);
}

/** Makes a failed mapping pending from now on; undefined when it is not failed. */
export async function retryMapping(
  tx: Tx,
  mapping: Pick<MappingRow, 'id' | 'hostname' | 'userId'>,
  terms: ClaimTerms,
): Promise<Claimed | NotClaimed | undefined> {
  const ended = await makeRoom(tx, mapping, terms);
  if (typeof ended === 'string') return ended;
  const set = `status = 'pending', pending_since = $2, checks = 0, next_check_at = $3, detail = ''`;
  const row = await updateMapping(tx, mapping.id, 'failed', set, [terms.now, terms.nextCheckAt]);
  return row === undefined ? undefined : { row, ended };
}

/**
 * Takes at most `limit` mappings whose check is due (with `held`: of these shards), and moves their next check to
 * `until`, so that of several processes that are not one cluster one checks, and none twice at a time. Whoever dies
 * over it leaves it to the others from then on.
 */
export function claimDue(db: Queries, now: Date, until: Date, limit: number, held?: HeldShards): Promise<string[]> {
  const { filter, values } = ofShards('network/mapping', 'id', held, 4);
  return manyValues(
    db,
    z.string(),
    `update domain_mappings set next_check_at = $2 where id in (
       select id from domain_mappings where next_check_at <= $1 and ${filter}
       order by next_check_at limit $3 for update skip locked)
     returning id`,
    [now, until, limit, ...values],
  );
}

/** Removes a mapping, in whatever state; undefined when it was gone. */
export async function deleteMapping(tx: Tx, id: string): Promise<MappingRow | undefined> {
  const row = await tx.one(mappingRow, `delete from domain_mappings where id = $1 returning ${COLUMNS}`, [id]);
  if (row !== undefined) await tellNetwork(tx, { kind: 'removed', mappingId: id, hostname: row.hostname });
  return row;
}

/** Ids of at most `limit` mappings (with `held`: of these shards) whose container is deleted or being deleted. */
export function orphanedMappings(db: Queries, limit: number, held?: HeldShards): Promise<string[]> {
  const { filter, values } = ofShards('network/mapping', 'm.id', held, 2);
  return manyValues(
    db,
    z.string(),
    `select m.id from domain_mappings m
     where not exists (select from known_containers c where c.id = m.container_id and c.desired <> 'deleted')
       and ${filter} limit $1`,
    [limit, ...values],
  );
}

/**
 * Says for the user of a verified mapping what its certificate waits for; '' when it stands. The mapping's `detail`
 * shows it. Returns whether the hostname has a verified mapping.
 */
export async function setCertificateDetail(db: Queries, hostname: string, detail: string): Promise<boolean> {
  const touched = await db.run(
    `update domain_mappings set certificate_detail = $2 where domain = $1 and status = 'verified'`,
    [hostname, detail.slice(0, MAX_DETAIL)],
  );
  return touched === 1;
}

/** How many mappings a user has. */
export async function countMappings(db: Queries, userId: string): Promise<number> {
  return (await oneValue(db, z.number(), 'select count(*) from domain_mappings where user_id = $1', [userId])) ?? 0;
}
