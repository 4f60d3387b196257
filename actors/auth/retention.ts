/**
 * Throws away what nobody needs any more: forgotten login attempts, spent and long expired tokens, old audit entries.
 */
import { auditGrowth, purgeAudit } from '../../storage/audit.ts';
import { purgeApiTokens } from '../../storage/auth/api-tokens.ts';
import { purgeAttempts, purgeNetworks } from '../../storage/auth/attempts.ts';
import { purgeDeviceLogins } from '../../storage/auth/device-logins.ts';
import { purgePasswordLinks } from '../../storage/auth/password-links.ts';
import { purgeSpentTokens } from '../../storage/auth/security-keys.ts';
import { purgeEndedSessions } from '../../storage/auth/sessions.ts';
import { purgeKeptAnswers } from '../../storage/idempotency.ts';
import { periodic } from '../service/periodic.ts';
import type { AuthDeps } from './deps.ts';
import { AUTH_USER } from './users/placed.ts';

/** Between two rounds of forgetting what is old. */
const EVERY_MS = 3_600_000;
/** How long the audit trail is kept. */
const AUDIT_DAYS = 400;
/** Entries in an hour that somebody should know of: half a gigabyte a month. */
const MANY_ENTRIES = 2000;

/** The part that does it, on one node of the cluster. */
export function retention({ db, placement, log }: AuthDeps) {
  return periodic({
    service: AUTH_USER.service,
    name: 'retention',
    everyMs: EVERY_MS,
    placement,
    log,
    failure: 'what is old could not be purged',
    work: async () => {
      await purgeAttempts(db);
      await purgeNetworks(db);
      await purgeSpentTokens(db);
      await purgeApiTokens(db);
      await purgeEndedSessions(db);
      await purgeDeviceLogins(db);
      await purgePasswordLinks(db);
      await purgeKeptAnswers(db);
      await purgeAudit(db, AUDIT_DAYS);
      const { entries, busiest } = await auditGrowth(db);
      if (entries > MANY_ENTRIES) log.warn({ entries, busiest }, 'the audit trail grew fast in the last hour');
    },
  });
}
