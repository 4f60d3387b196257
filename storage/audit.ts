/** SQL of the audit trail: who did what from where. Rows are only ever added; the table refuses anything else. */
import { z } from 'zod';
import type { Queries } from './queries.ts';
import { columnsOf } from './rows.ts';

/** What happened. Written in the transaction of the change it tells of. Never holds a secret. */
export interface AuditEntry {
  /** Null for an operator at the command line, and for whoever could not log in. */
  readonly userId: string | null;
  /** Who, by name; `operator` for the command line. */
  readonly username: string;
  /** `<noun>.<verb>`, such as `token.create`. */
  readonly action: string;
  /** What it was done to: an id or a name. */
  readonly target?: string;
  readonly address?: string;
  readonly requestId?: string;
  readonly detail?: Readonly<Record<string, unknown>>;
}

/** The beginning of a statement that adds an entry, where that has to be part of another one. */
export const INTO_AUDIT = 'insert into audit_log (user_id, username, action, target, address, request_id, detail)';

/** Adds an entry. */
export async function audit(tx: Queries, entry: AuditEntry): Promise<void> {
  await tx.run(
    `${INTO_AUDIT}
     values ($1, $2, $3, $4, $5, $6, $7::jsonb)`,
    [
      entry.userId,
      entry.username,
      entry.action,
      entry.target ?? '',
      entry.address ?? '',
      entry.requestId ?? '',
      JSON.stringify(entry.detail ?? {}),
    ],
  );
}

const auditRow = z.object({
  id: z.number(),
  at: z.date(),
  userId: z.string().nullable(),
  username: z.string(),
  action: z.string(),
  target: z.string(),
  address: z.string(),
  requestId: z.string(),
  detail: z.record(z.string(), z.unknown()),
});

/** An entry as stored. */
export type AuditRow = z.output<typeof auditRow>;

/** Which entries: all conditions hold. */
export interface AuditFilter {
  readonly username?: string | undefined;
  /** An action, or a noun before its dot: `token` finds `token.create`. */
  readonly action?: string | undefined;
  readonly since?: Date;
  /** Only entries with a higher id. Ids are given before the commit: a lower one may still come after a higher one. */
  readonly afterId?: number;
  /** Only entries with a lower id. */
  readonly beforeId?: number;
  readonly limit: number;
}

/** The newest entries that fit, oldest first. */
export async function readAudit(db: Queries, filter: AuditFilter): Promise<AuditRow[]> {
  const rows = await db.many(
    auditRow,
    `select ${columnsOf(auditRow)} from audit_log
     where ($1::text is null or username = $1)
       and ($2::text is null or action = $2 or split_part(action, '.', 1) = $2)
       and ($3::timestamptz is null or at >= $3) and ($4::bigint is null or id > $4)
       and ($6::bigint is null or id < $6)
     order by id desc limit $5`,
    [
      filter.username ?? null,
      filter.action ?? null,
      filter.since ?? null,
      filter.afterId ?? null,
      filter.limit,
      filter.beforeId ?? null,
    ],
  );
  return rows.reverse();
}

/** Drops entries older than `days` (at least 90). Returns how many went. */
export function purgeAudit(db: Queries, days: number): Promise<number> {
  return db.run('delete from audit_log where at < now() - make_interval(days => greatest($1::int, 91))', [days]);
}

const growthRow = z.object({ username: z.string(), entries: z.number() });

/** Entries of the last hour, and the three names that have the most of them. */
export async function auditGrowth(
  db: Queries,
): Promise<{ readonly entries: number; readonly busiest: readonly z.output<typeof growthRow>[] }> {
  const rows = await db.many(
    growthRow,
    `select username, count(*) as entries from audit_log where at > now() - interval '1 hour'
     group by username order by entries desc, username`,
  );
  return { entries: rows.reduce((sum, { entries }) => sum + entries, 0), busiest: rows.slice(0, 3) };
}
