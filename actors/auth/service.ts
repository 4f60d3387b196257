/** The authentication service: its endpoints, who answers them, and its supervision tree. */
import { authEndpoints } from '../../proto/auth/endpoints.ts';
import { Refusal } from '../../proto/errors.ts';
import type { Service } from '../../proto/service.ts';
import {
  ActorError,
  type Entities,
  entities,
  query,
  type Ref,
  type SystemRef,
  spawnStateless,
} from '../../supervision/index.ts';
import { ASK_TIMEOUT, actorKey, askActor, type CallMessage, handleCall } from '../service/dispatch.ts';
import { databaseProblem, healthOf, lifeOf } from '../service/health.ts';
import { startServiceSupervisor } from '../service/supervisor.ts';
import type { AuthDeps } from './deps.ts';
import { loginHandlers } from './login/login.ts';
import { HASH_QUEUE } from './login/passwords.ts';
import { passwordProver } from './login/prove-password.ts';
import { startRetention } from './retention.ts';
import { startNews } from './users/news.ts';
import { startOffboarding } from './users/offboarding.ts';
import { AUTH_USER, type AuthUserMessage, userKind } from './users/user.ts';

/**
 * Logins worked on at once: more than hashes can wait, so that those who need none (the throttled) do not wait behind
 * them.
 */
const LOGIN_CONCURRENCY = HASH_QUEUE + 64;
/** Logins that wait; past it the answer is `overloaded`. */
const LOGIN_QUEUE = 1000;

/** Starts the service under `system`; it ends with it. Rejects when a part of it cannot start. */
export async function startAuth(system: SystemRef, deps: AuthDeps): Promise<Service> {
  const prover = passwordProver(deps);
  const table = loginHandlers(deps, prover);
  const kind = userKind(deps, prover.prove);
  let logins: Ref<CallMessage> | undefined;
  let users: Entities<AuthUserMessage> | undefined;

  const supervisor = await startServiceSupervisor(system, 'auth', {
    logins: (parent) => {
      logins = spawnStateless<CallMessage>(parent, (message) => handleCall(table, undefined, message), {
        name: 'logins',
        kind: 'auth/login',
        concurrency: LOGIN_CONCURRENCY,
        mailbox: { capacity: LOGIN_QUEUE, policy: 'reject' },
      });
      return logins;
    },
    users: (parent) => {
      users = deps.home.place(AUTH_USER, entities(parent, kind));
      return users.ref;
    },
    news: (parent) => startNews(parent, deps, (userId) => users?.tell(userId, { type: 'changed' })),
    retention: (parent) => startRetention(parent, deps),
    offboarding: (parent) => startOffboarding(parent, deps),
  });
  const stopProblem = lifeOf(supervisor);

  return {
    name: 'auth',
    endpoints: authEndpoints,
    // Not async: it carries every request, and each promise more is felt.
    call: (endpoint, call) => {
      const desk = logins;
      const entities = users;
      if (desk === undefined || entities === undefined) return Promise.reject(new Refusal('unavailable'));
      if (endpoint.actor.key === 'desk') return askActor((make) => query(desk, make, ASK_TIMEOUT), endpoint, call);
      return askActor((make) => entities.ask(actorKey(endpoint, call), make, ASK_TIMEOUT), endpoint, call).catch(
        (error: unknown) => {
          // The token is good but its user is gone.
          throw error instanceof Refusal && error.code === 'not_found' && error.cause instanceof ActorError
            ? new Refusal('unauthorized')
            : error;
        },
      );
    },
    connect: async () => {
      throw new Refusal('not_found');
    },
    health: async () => healthOf(stopProblem(), await databaseProblem(deps.db)),
  };
}
