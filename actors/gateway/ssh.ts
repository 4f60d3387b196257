/** Decides who may enter containers by SSH. The actor `ssh` ends logins that lost their right (`open-logins.ts`). */
import type { ComputeNews } from '../../proto/compute/events.ts';
import { type SshAuthorizer, type SshConnectionInfo, sshHost } from '../../proto/gateway/ssh.ts';
import { openedByKey, sshAccess } from '../../storage/gateway/ssh-access.ts';
import type { AnyRef } from '../../supervision/index.ts';
import type { GatewayDeps } from './deps.ts';
import { OpenLogins } from './open-logins.ts';
import { MAX_NAMED, sshAnswer, sshFound } from './ssh-rules.ts';

/** Open logins of one user. */
const PER_USER = 100;
const ENDED = 'You may not enter this container any more.';

/** Decides about logins; `start` starts its actor under a supervisor. */
interface SshControl extends SshAuthorizer {
  start(parent: AnyRef): AnyRef;
}

/** What logins need of the gateway once it has started. */
interface SshParts {
  /** Parent of the logins' actors. */
  readonly connections: AnyRef;
  /** The gateway's own port of SSH. */
  readonly port: number;
}

/** Makes it. While `parts` has none, every login is `unavailable`. */
export function sshControl(
  { db, log, computeNews, domain }: Pick<GatewayDeps, 'db' | 'log' | 'computeNews' | 'domain'>,
  parts: () => SshParts | undefined,
): SshControl {
  const logins = new OpenLogins<SshConnectionInfo>(
    {
      name: 'ssh',
      kind: 'gateway/ssh-access',
      loginKind: 'gateway/ssh',
      perUser: PER_USER,
      ended: ENDED,
      concerns,
      reasons: async (asked) => {
        const found = await sshAccess(db, asked);
        return asked.map((connection, index) => {
          const answer = sshAnswer(connection.containerId, found[index]);
          if (answer.kind === 'enter') return undefined;
          return answer.kind === 'explain' ? answer.text : ENDED;
        });
      },
    },
    { log, computeNews },
  );

  return {
    ask: async (question) => {
      if (parts() === undefined) return { kind: 'unavailable' };
      try {
        const [access] = await sshAccess(db, [question]);
        return sshAnswer(question.containerId, access);
      } catch (error) {
        log.warn({ err: error }, 'an SSH login could not be decided');
        return { kind: 'unavailable' };
      }
    },
    find: async (question) => {
      const own = parts();
      if (own === undefined) return { kind: 'unavailable' };
      try {
        const ids = await openedByKey(db, question, MAX_NAMED);
        return sshFound(ids, { host: sshHost(domain), port: question.port ?? own.port });
      } catch (error) {
        log.warn({ err: error }, 'an SSH login could not be decided');
        return { kind: 'unavailable' };
      }
    },
    adopt: (connection) => {
      const parent = parts()?.connections;
      return parent === undefined ? undefined : logins.adopt(parent, connection);
    },
    start: (parent) => logins.start(parent),
  };
}

/** Which logins news is about. */
function concerns(news: ComputeNews): (connection: SshConnectionInfo) => boolean {
  switch (news.kind) {
    case 'all':
      return () => true;
    case 'key':
      return ({ userId, fingerprint }) => userId === news.userId && fingerprint === news.fingerprint;
    case 'user':
      return ({ userId }) => userId === news.userId;
    case 'ingress':
      return ({ containerId, port }) => containerId === news.containerId && port !== undefined;
    // A start or a crash ends the connection itself.
    case 'status':
      return () => false;
    default:
      return ({ containerId }) => containerId === news.containerId;
  }
}
