/** SQL of login session records. */
import { z } from 'zod';
import type { Queries } from '../db.ts';

const sessionRow = z
  .object({ id: z.number(), token_id: z.string(), ip_address: z.string(), created_at: z.date() })
  .transform((row) => ({ id: row.id, tokenId: row.token_id, ipAddress: row.ip_address, createdAt: row.created_at }));
export type SessionRow = z.output<typeof sessionRow>;

/** Most records shown and kept for one user: a script that logs in every second must not grow the list without end. */
const MAX_SESSIONS = 200;

/** Records a login and drops this user's expired records, and the oldest past the bound. */
export async function insertSession(
  db: Queries,
  session: { tokenId: string; userId: string; ipAddress: string; expiresAt: Date },
): Promise<void> {
  await db.run(
    `with gone as (
       delete from login_sessions where user_id = $2 and (expires_at <= now() or id in
         (select id from login_sessions where user_id = $2 order by id desc offset ${MAX_SESSIONS - 1}))
     )
     insert into login_sessions (token_id, user_id, ip_address, expires_at) values ($1, $2, $3, $4)`,
    [session.tokenId, session.userId, session.ipAddress, session.expiresAt],
  );
}

/** The user's logins that have not expired, newest first. */
export function listSessions(db: Queries, userId: string): Promise<SessionRow[]> {
  return db.many(
    sessionRow,
    `select id, token_id, ip_address, created_at from login_sessions
     where user_id = $1 and expires_at > now() order by id desc limit ${MAX_SESSIONS}`,
    [userId],
  );
}
