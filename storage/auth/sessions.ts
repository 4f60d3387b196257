/** SQL of login session records. */
import { z } from 'zod';
import type { Caller } from '../../proto/endpoint.ts';
import { INTO_AUDIT } from '../audit.ts';
import type { Queries, Tx } from '../db.ts';
import { columnsOf, oneValue } from '../rows.ts';
import { voidPasswordLink } from './password-links.ts';
import { SESSION_COUNTS, sessionParameters, tellTokens } from './token-directory.ts';

const sessionRow = z.object({
  id: z.number(),
  tokenId: z.string(),
  ipAddress: z.string(),
  createdAt: z.date(),
  userAgent: z.string(),
  lastSeenAt: z.date().nullable(),
});
type SessionRow = z.output<typeof sessionRow>;

/** Most records shown and kept for one user: a script that logs in every second must not grow the list without end. */
const MAX_SESSIONS = 200;
/** Longest name of a client that is kept, in characters. */
const MAX_USER_AGENT = 200;
/** Networks kept for one user, the latest. */
const MAX_NETWORKS = 100;

/** A login that succeeded. */
interface Login {
  readonly tokenId: string;
  readonly userId: string;
  readonly username: string;
  readonly address: string;
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
    [
      tokenId,
      userId,
      username,
      address,
      network,
      expiresAt,
      requestId,
      JSON.stringify(detail),
      forgives,
      userAgent.replaceAll('\0', '').slice(0, MAX_USER_AGENT),
    ],
  );
}

/** The user's logins that have not expired, newest first. */
export function listSessions(db: Queries, userId: string): Promise<SessionRow[]> {
  return db.many(
    sessionRow,
    `select ${columnsOf(sessionRow)} from login_sessions
     where user_id = $1 and expires_at > now() order by id desc limit ${MAX_SESSIONS}`,
    [userId],
  );
}

/** A session, as its caller has it. */
type SessionOfCaller = Pick<Caller, 'tokenId' | 'session'>;

/**
 * Ends all sessions of a user on every node within a second of the commit, and every login that is under way; voids
 * their password link. Returns how many sessions were known of. The user is held from then on.
 */
export async function endSessions(tx: Tx, userId: string): Promise<number> {
  return (await endUnderWay(tx, userId, null)).sessions;
}

/** What ended with the others. */
interface EndedOthers {
  /** How many sessions were known of. */
  readonly sessions: number;
  /** Whether it ended no session and no password link, and the one that asks had ended all others before. */
  readonly isRepeated: boolean;
}

/**
 * The same for all but the one that asks. Undefined when something has ended that one since its caller was proven:
 * then it ends none. Whoever holds the user goes first, and PostgreSQL asks again after that wait.
 */
export async function endOtherSessions(
  tx: Tx,
  userId: string,
  kept: SessionOfCaller,
): Promise<EndedOthers | undefined> {
  const former = await tx.one(
    z.object({ kept: z.string().nullable() }),
    `select kept_session as kept from users where ${SESSION_COUNTS} for no key update`,
    sessionParameters(userId, kept),
  );
  if (former === undefined) return undefined;
  const { sessions, links } = await endUnderWay(tx, userId, kept.tokenId);
  return { sessions, isRepeated: sessions === 0 && links === 0 && former.kept === kept.tokenId };
}

/**
 * Begins the user's next epoch, also where no session is known of: logins under way, keys that open the account and
 * sessions that the list has no room for end with the present one.
 */
async function endUnderWay(
  tx: Tx,
  userId: string,
  kept: string | null,
): Promise<{ readonly sessions: number; readonly links: number }> {
  const next = 'update users set sessions_epoch = sessions_epoch + 1, kept_session = $2 where id = $1';
  await tx.run(next, [userId, kept]);
  const links = await voidPasswordLink(tx, userId);
  await tellTokens(tx, 'user', userId);
  const others = 'delete from login_sessions where user_id = $1 and token_id is distinct from $2';
  return { links, sessions: await tx.run(others, [userId, kept]) };
}

/** The user's present epoch (`SessionBirth`); null when there is no such user. */
export async function sessionsEpoch(db: Queries, userId: string): Promise<number | null> {
  return (await oneValue(db, z.number(), 'select sessions_epoch from users where id = $1', [userId])) ?? null;
}

/** The same, if nothing has ended this session of theirs: else null. What is noted with it ends with their sessions. */
export async function epochOfSession(db: Queries, userId: string, session: SessionOfCaller): Promise<number | null> {
  const counts = `select sessions_epoch from users where ${SESSION_COUNTS}`;
  return (await oneValue(db, z.number(), counts, sessionParameters(userId, session))) ?? null;
}

/**
 * Ends one session of a user, by its record's id or its token's id, on every node within a second of the commit.
 * Undefined when the user has no such session; else its token's id.
 */
export async function endSession(
  tx: Tx,
  userId: string,
  which: { readonly id: number } | { readonly tokenId: string },
): Promise<string | undefined> {
  const ended = await oneValue(
    tx,
    z.string(),
    `with gone as (
       delete from login_sessions where user_id = $1 and expires_at > now()
         and (id = $2::bigint or token_id = $3::text) returning token_id, user_id, expires_at
     )
     insert into ended_sessions (token_id, user_id, expires_at) select token_id, user_id, expires_at from gone
     on conflict (token_id) do nothing returning token_id`,
    [userId, 'id' in which ? which.id : null, 'tokenId' in which ? which.tokenId : null],
  );
  if (ended !== undefined) await tellTokens(tx, 'user', userId);
  return ended;
}

/** Notes that a session asked for itself, at most once a minute. */
export async function noteSeen(db: Queries, tokenId: string): Promise<void> {
  await db.run(
    `update login_sessions set last_seen_at = now()
     where token_id = $1 and (last_seen_at is null or last_seen_at < now() - interval '1 minute')`,
    [tokenId],
  );
}

/**
 * Lets a session last until `expiresAt`, but no longer than `days` after its login. Until when it does; undefined when
 * there is no such session.
 */
export function prolongSession(db: Queries, tokenId: string, expiresAt: Date, days: number): Promise<Date | undefined> {
  return oneValue(
    db,
    z.date(),
    `update login_sessions
     set expires_at = greatest(expires_at, least($2::timestamptz, created_at + make_interval(days => $3::int))),
       last_seen_at = now()
     where token_id = $1 and expires_at > now() returning expires_at`,
    [tokenId, expiresAt, days],
  );
}

/** Forgets sessions that ended and whose tokens have expired since. Returns how many went. */
export function purgeEndedSessions(db: Queries): Promise<number> {
  return db.run('delete from ended_sessions where expires_at < now()');
}
