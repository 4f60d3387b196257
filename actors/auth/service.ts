/** The authentication service: its endpoints, who answers them, and its supervision tree. */
import { authEndpoints } from '../../proto/auth/endpoints.ts';
import type { Service } from '../../proto/endpoint.ts';
import type { SystemRef } from '../../supervision/index.ts';
import { handlers } from '../service/dispatch.ts';
import { placedEntities, pool } from '../service/parts.ts';
import { startService } from '../service/start-service.ts';
import type { AuthDeps } from './deps.ts';
import { loginHandlers } from './login/login.ts';
import { HASH_QUEUE } from './login/passwords.ts';
import { PlaceLimit } from './login/place-limit.ts';
import { passwordProver } from './login/prove-password.ts';
import { retention } from './retention.ts';
import { adminHandlers } from './users/admin.ts';
import { startNews } from './users/news.ts';
import { AUTH_USER } from './users/placed.ts';
import { userKind } from './users/user.ts';

/**
 * Logins worked on at once: more than hashes can wait, so that those who need none (the throttled) do not wait behind
 * them.
 */
const LOGIN_CONCURRENCY = HASH_QUEUE + 64;
/** Logins that wait; past it the answer is `overloaded`. */
const LOGIN_QUEUE = 1000;

/** The administrator's calls worked on at once, some of them lists; and those that wait. */
const ADMIN_CONCURRENCY = 4;
const ADMIN_QUEUE = 64;

/** Starts the service under `system`; it ends with it. Rejects when a part of it cannot start. */
export function startAuth(system: SystemRef, deps: AuthDeps): Promise<Service> {
  const places = new PlaceLimit();
  const prover = passwordProver(deps, places);
  const logins = pool('auth/login', loginHandlers(deps, prover, places), {
    name: 'logins',
    concurrency: LOGIN_CONCURRENCY,
    queue: LOGIN_QUEUE,
  });
  const admin = pool('auth/admin', handlers(...adminHandlers(deps)), {
    name: 'admin',
    concurrency: ADMIN_CONCURRENCY,
    queue: ADMIN_QUEUE,
  });
  // A good token of a user who is gone proves nobody.
  const users = placedEntities(deps.placement, AUTH_USER, userKind(deps, prover.prove), 'unauthorized');

  return startService(system, {
    name: 'auth',
    endpoints: authEndpoints,
    db: deps.db,
    placement: deps.placement,
    parts: {
      logins,
      admin,
      users,
      news: (parent) => startNews(parent, deps, (userId) => users.tell(userId, { type: 'changed' })),
      retention: retention(deps),
    },
  });
}
