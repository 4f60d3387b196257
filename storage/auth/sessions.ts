/** SQL of login session records. */
import { z } from 'zod';
import { INTO_AUDIT } from '../audit.ts';
import type { Queries, Tx } from '../db.ts';
import { tellTokens } from './token-directory.ts';

const sessionRow = z.object({
  id: z.number(),
  tokenId: z.string(),
  ipAddress: z.string(),
  userAgent: z.string(),
  createdAt: z.date(),
  lastSeenAt: z.date(),
});
type SessionRow = z.output<typeof sessionRow>;

/** Most records shown and kept for one user: a script that logs in every second must not grow the list without end. */
const MAX_SESSIONS = 200;
/** Networks kept for one user, the latest. */
const MAX_NETWORKS = 100;

/** A login that succeeded. */
interface Login {
  readonly tokenId: string;
  readonly userId: string;
  readonly username: string;
  readonly address: string;
  /** What logs in, as it calls itself. */
  readonly userAgent: string;
  /** What the throttle knows the address by. */
  readonly network: string;
  readonly expiresAt: Date;
  readonly requestId: string;
  /** The count of failed attempts that this login forgives (storage/auth/attempts.ts); null: none. */
  readonly forgives: string | null;
  /** For the audit trail: what proved who it is. */
  readonly detail: Readonly<Record<string, unknown>>;
}

/**
 * Records a login: its session, its network, and the audit entry `login`. Forgives failed attempts, and drops the
 * user's expired sessions, and the oldest sessions and networks past their bounds. One statement, since every login
 * waits for it: all of it happens or none.
 */
export async function recordLogin(db: Queries, login: Login): Promise<void> {
  const { tokenId, userId, username, address, userAgent, network, expiresAt, requestId, forgives, detail } = login;
  await db.run(
    `with gone_sessions as (
       delete from login_sessions where user_id = $2 and (expires_at <= now() or id in
         (select id from login_sessions where user_id = $2 order by id desc offset ${MAX_SESSIONS - 1}))
     ), gone_networks as (
       delete from login_networks where user_id = $2 and network in
         (select network from login_networks where user_id = $2 and network <> $5 order by last_at desc offset
         ${MAX_NETWORKS - 1})
     ), gone_attempts as (
       delete from login_attempts where key = $9
     ), session as (
       insert into login_sessions (token_id, user_id, ip_address, expires_at, user_agent) values ($1, $2, $4, $6, $10)
     ), network as (
       insert into login_networks (user_id, network) values ($2, $5) on conflict (user_id, network) do update set
       last_at = now()
     )
     ${INTO_AUDIT}
       values ($2, $3, 'login', $2, $4, $7, $8::jsonb)`,
    [tokenId, userId, username, address, network, expiresAt, requestId, JSON.stringify(detail), forgives, userAgent],
  );
}

/** The user's logins that have not expired, newest first. */
export function listSessions(db: Queries, userId: string): Promise<SessionRow[]> {
  return db.many(
    sessionRow,
    `select id, token_id as "tokenId", ip_address as "ipAddress", user_agent as "userAgent", created_at as "createdAt",
       coalesce((select u.last_seen_at from session_uses u where u.token_id = s.token_id), created_at) as "lastSeenAt"
     from login_sessions s where user_id = $1 and expires_at > now() order by id desc limit ${MAX_SESSIONS}`,
    [userId],
  );
}

/**
 * Ends all sessions of a user but one (its token's id; null: all), on every node within a second of the commit; and
 * every login that is under way. Returns how many were known of.
 */
export async function endSessions(tx: Tx, userId: string, except: string | null): Promise<number> {
  await tx.run('update users set sessions_epoch = sessions_epoch + 1, kept_session = $2 where id = $1', [
    userId,
    except,
  ]);
  await tellTokens(tx, 'user', userId);
  return tx.run('delete from login_sessions where user_id = $1 and token_id is distinct from $2', [userId, except]);
}

/** A session that holds, until its token expires. */
interface LivingSession {
  readonly tokenId: string;
  readonly expiresAt: Date;
}

const livingRow = z.object({ tokenId: z.string(), expiresAt: z.date() });

/** The session that the list has under `id`; undefined when the user has none there. */
export function sessionById(db: Queries, userId: string, id: number): Promise<LivingSession | undefined> {
  return db.one(
    livingRow,
    `select token_id as "tokenId", expires_at as "expiresAt" from login_sessions
     where user_id = $1 and id = $2 and expires_at > now()`,
    [userId, id],
  );
}

/** Ends one session, on every node within a second of the commit. Returns whether it was not over before. */
export async function endSession(tx: Tx, { tokenId, expiresAt }: LivingSession): Promise<boolean> {
  // Its record knows of renewals, which may have made tokens that live longer.
  const ended = await tx.run(
    `with gone as (delete from login_sessions where token_id = $1 returning expires_at)
     insert into ended_sessions (token_id, expires_at)
       select $1, greatest($2, (select expires_at from gone)) on conflict (token_id) do nothing`,
    [tokenId, expiresAt],
  );
  if (ended > 0) await tellTokens(tx, 'token', tokenId);
  return ended > 0;
}

/** Lets a session live until `expiresAt`. False when its record is gone. */
export async function extendSession(tx: Tx, userId: string, { tokenId, expiresAt }: LivingSession): Promise<boolean> {
  const extended = await tx.run(
    `update login_sessions set expires_at = greatest(expires_at, $3) where user_id = $1 and token_id = $2`,
    [userId, tokenId, expiresAt],
  );
  return extended > 0;
}

/** Writes down when sessions were used: unix seconds by the id of their token. */
export async function recordSeen(db: Queries, seen: ReadonlyMap<string, number>): Promise<void> {
  // In one order everywhere, so that no two wait for each other.
  await db.run(
    `insert into session_uses as s (token_id, last_seen_at)
       select id, to_timestamp(at) from unnest($1::text[], $2::float8[]) as u (id, at) order by id collate "C"
     on conflict (token_id) do update set last_seen_at = greatest(s.last_seen_at, excluded.last_seen_at)`,
    [[...seen.keys()], [...seen.values()]],
  );
}

/** Forgets ended sessions whose tokens have expired, and the uses of those that are gone. */
export async function purgeEndedSessions(db: Queries): Promise<void> {
  await db.run(`delete from ended_sessions where expires_at < now() - interval '1 hour'`);
  await db.run(
    'delete from session_uses u where not exists (select from login_sessions s where s.token_id = u.token_id)',
  );
}
