/** SQL of login session records. */
import { z } from 'zod';
import { INTO_AUDIT } from '../audit.ts';
import type { Queries, Tx } from '../db.ts';
import { tellTokens } from './token-directory.ts';

const sessionRow = z.object({ id: z.number(), tokenId: z.string(), ipAddress: z.string(), createdAt: z.date() });
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
  const { tokenId, userId, username, address, network, expiresAt, requestId, forgives, detail } = login;
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
       insert into login_sessions (token_id, user_id, ip_address, expires_at) values ($1, $2, $4, $6)
     ), network as (
       insert into login_networks (user_id, network) values ($2, $5) on conflict (user_id, network) do update set
       last_at = now()
     )
     ${INTO_AUDIT}
       values ($2, $3, 'login', $2, $4, $7, $8::jsonb)`,
    [tokenId, userId, username, address, network, expiresAt, requestId, JSON.stringify(detail), forgives],
  );
}

/** The user's logins that have not expired, newest first. */
export function listSessions(db: Queries, userId: string): Promise<SessionRow[]> {
  return db.many(
    sessionRow,
    `select id, token_id as "tokenId", ip_address as "ipAddress", created_at as "createdAt" from login_sessions
     where user_id = $1 and expires_at > now() order by id desc limit ${MAX_SESSIONS}`,
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
