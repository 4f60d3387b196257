/**
 * Decides whose account a key opens by SSH. The actor `ssh-accounts` ends logins whose key or user lost the right
 * (`open-logins.ts`).
 */
import { LRUCache } from 'lru-cache';
import type { SshAccountAuthorizer, SshAccountConnection } from '../../proto/gateway/ssh.ts';
import { audit } from '../../storage/audit.ts';
import { holdersOfKey, stillOpened } from '../../storage/gateway/ssh-accounts.ts';
import type { AnyRef } from '../../supervision/index.ts';
import type { GatewayDeps } from './deps.ts';
import { OpenLogins } from './open-logins.ts';
import { accountAnswer, MAX_OWNERS } from './ssh-rules.ts';

/** Open logins of one user to the account. */
const PER_USER = 20;
/** A login with the same key from the same address is recorded once in so long, ms. */
const RECORDED_MS = 600_000;
const ENDED = 'This key does not open your account any more, or your sessions were ended.';

/** Decides about logins; `start` starts its actor under a supervisor. */
interface SshAccountControl extends SshAccountAuthorizer {
  start(parent: AnyRef): AnyRef;
}

/** Makes it. While `parent` gives none, every login is `unavailable`. */
export function sshAccountControl(
  { db, log, computeNews }: Pick<GatewayDeps, 'db' | 'log' | 'computeNews'>,
  parent: () => AnyRef | undefined,
): SshAccountControl {
  const logins = new OpenLogins<SshAccountConnection>(
    {
      name: 'ssh-accounts',
      kind: 'gateway/ssh-account-access',
      loginKind: 'gateway/ssh-account',
      perUser: PER_USER,
      ended: ENDED,
      concerns: (news) => (login) => {
        if (news.kind === 'all') return true;
        if (news.kind === 'user') return login.userId === news.userId;
        return news.kind === 'key' && login.userId === news.userId && login.fingerprint === news.fingerprint;
      },
      reasons: async (asked) => (await stillOpened(db, asked)).map((isOpen) => (isOpen ? undefined : ENDED)),
    },
    { log, computeNews },
  );
  /** Logins that the audit trail knows of: a script may come every second. */
  const recorded = new LRUCache<string, true>({ max: 10_000, ttl: RECORDED_MS });
  return {
    account: async (question) => {
      if (parent() === undefined) return { kind: 'unavailable' };
      try {
        const { user, fingerprint } = question;
        return accountAnswer(question, await holdersOfKey(db, user, fingerprint, MAX_OWNERS));
      } catch (error) {
        log.warn({ err: error }, 'an SSH login could not be decided');
        return { kind: 'unavailable' };
      }
    },
    adoptAccount: async (connection) => {
      const above = parent();
      if (above === undefined) return 'The gateway is not ready: connect again.';
      const release = logins.adopt(above, connection);
      if (release === undefined) return 'You have too many SSH logins: close one.';
      const { userId, username, address, fingerprint, keyName } = connection;
      const noted = `${userId} ${fingerprint} ${address}`;
      if (recorded.has(noted)) return release;
      try {
        // Nobody is let in whom the audit trail does not know of.
        const detail = { factor: 'ssh_key', name: keyName, fingerprint };
        await audit(db, { userId, username, action: 'login', target: userId, address, detail });
      } catch (error) {
        release();
        log.warn({ err: error }, 'an SSH login could not be recorded');
        return 'The login cannot be recorded at the moment: try again soon.';
      }
      recorded.set(noted, true);
      return release;
    },
    start: (above) => logins.start(above),
  };
}
