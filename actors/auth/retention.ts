/**
 * Throws away what nobody needs any more: forgotten login attempts, spent and long expired tokens, old audit entries.
 */
import { auditGrowth, purgeAudit } from '../../storage/audit.ts';
import { purgeApiTokens } from '../../storage/auth/api-tokens.ts';
import { purgeAttempts } from '../../storage/auth/attempts.ts';
import { purgeNetworks } from '../../storage/auth/login-networks.ts';
import { purgeSpentTokens } from '../../storage/auth/spent-tokens.ts';
import { type AnyRef, spawn } from '../../supervision/index.ts';
import type { AuthDeps } from './deps.ts';
import { AUTH_USER } from './users/user.ts';

const EVERY_MS = 3_600_000;
/** How long the audit trail is kept. */
const AUDIT_DAYS = 400;
/** Entries in an hour that somebody should know of: half a gigabyte a month. */
const MANY_ENTRIES = 2000;

/** The actor that does it, every hour. A database that is away is left for the next time. */
export function startRetention(parent: AnyRef, { db, home, log }: AuthDeps): AnyRef {
  return spawn<null, 'purge'>(
    parent,
    async () => {
      // One in the cluster is enough: the node that would hold a user of this name.
      if (!home.holds(AUTH_USER, 'retention')) return null;
      await purgeAttempts(db);
      await purgeNetworks(db);
      await purgeSpentTokens(db);
      await purgeApiTokens(db);
      await purgeAudit(db, AUDIT_DAYS);
      const { entries, busiest } = await auditGrowth(db);
      if (entries > MANY_ENTRIES) log.warn({ entries, busiest }, 'the audit trail grew fast in the last hour');
      return null;
    },
    {
      name: 'retention',
      kind: 'auth/retention',
      initialStateFunc: (ctx) => {
        ctx.every(EVERY_MS, 'purge');
        return null;
      },
      onCrash: (_message, error, ctx) => {
        log.warn({ err: error }, 'what is old could not be purged');
        return ctx.resume;
      },
    },
  );
}
