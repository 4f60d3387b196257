/**
 * Decides who may enter by SSH, and has an actor for each open login. The actor `ssh` ends logins that lost their
 * right: at once when there is news of their container or key, and in any case after 5 seconds.
 */
import type { ComputeNews } from '../../proto/compute/events.ts';
import { type SshAuthorizer, type SshConnectionInfo, sshHost } from '../../proto/gateway/ssh.ts';
import { openedByKey, sshAccess } from '../../storage/gateway/ssh-access.ts';
import { type AnyRef, dispatch, spawn, stop } from '../../supervision/index.ts';
import type { GatewayDeps } from './deps.ts';
import { MAX_NAMED, sshAnswer, sshFound } from './ssh-rules.ts';

const EVERY_MS = 5000;
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
  const open = new Set<SshConnectionInfo>();
  /** Logins that may have lost their right. */
  const doubtful = new Set<SshConnectionInfo>();
  let look: () => void = () => {};

  const doubt = (isMeant: (connection: SshConnectionInfo) => boolean): void => {
    for (const connection of open) if (isMeant(connection)) doubtful.add(connection);
    if (doubtful.size > 0) look();
  };
  const check = async (): Promise<void> => {
    const asked = [...doubtful];
    if (asked.length === 0) return;
    doubtful.clear();
    try {
      const found = await sshAccess(db, asked);
      for (const [index, connection] of asked.entries()) {
        const answer = sshAnswer(connection.containerId, found[index]);
        if (answer.kind !== 'enter') connection.end(answer.kind === 'explain' ? answer.text : ENDED);
      }
    } catch (error) {
      for (const connection of asked) if (open.has(connection)) doubtful.add(connection);
      log.warn({ err: error }, 'open SSH logins could not be checked: they go on');
    }
  };

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
      if (parent === undefined) return undefined;
      let mine = 0;
      for (const { userId } of open) if (userId === connection.userId) mine++;
      if (mine >= PER_USER) return undefined;
      const ref = startLogin(parent, connection);
      open.add(connection);
      // The answer may have changed since it was asked.
      doubtful.add(connection);
      look();
      return () => {
        open.delete(connection);
        doubtful.delete(connection);
        stop(ref);
      };
    },
    start: (parent) => {
      const ref = spawn<{ readonly news: { close(): Promise<void> } }, 'look' | 'look at all'>(
        parent,
        async (state, message) => {
          if (message === 'look at all') for (const connection of open) doubtful.add(connection);
          await check();
          return state;
        },
        {
          name: 'ssh',
          kind: 'gateway/ssh-access',
          // A look that waits checks all that are doubtful by then.
          mailbox: { capacity: 2, policy: 'drop-newest' },
          initialStateFunc: (ctx) => {
            look = () => dispatch(ctx.self, 'look');
            ctx.every(EVERY_MS, 'look at all');
            return { news: computeNews.onNews((news) => doubt(concerns(news))) };
          },
          afterStop: (state) => state.news.close(),
        },
      );
      return ref;
    },
  };
}

/** The actor of one login: the login ends with it. */
function startLogin(parent: AnyRef, connection: SshConnectionInfo): AnyRef {
  return spawn<SshConnectionInfo, 'end'>(
    parent,
    (state) => {
      state.end(ENDED);
      return state;
    },
    {
      kind: 'gateway/ssh',
      initialState: connection,
      afterStop: (state) => state.end('The gateway is stopping: connect again.'),
    },
  );
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
