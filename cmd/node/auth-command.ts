/** `troupe auth`: the authentication service alone. Several share the users: each user is awake in one of them. */
import { startAuth } from '../../actors/auth/service.ts';
import { ensureAdmin } from '../../actors/auth/users/users.ts';
import type { Service } from '../../proto/service.ts';
import { registryOf } from './registry-of.ts';
import { type AloneOptions, type AloneParts, runAlone } from './run-alone.ts';

/** Runs until it is told to stop. */
export function runAuth(options: AloneOptions): Promise<void> {
  return runAlone({ name: 'auth', title: 'authentication', needs: [], open }, options);
}

async function open(parts: AloneParts): Promise<Service> {
  const { environment, domain, db, bus, home, log, clock, jwtSecret, authenticate, tokensChanged } = parts;
  // Nobody would read a generated password here: `troupe users add` makes users, too.
  if (environment.ADMIN_PASSWORD !== undefined)
    await ensureAdmin(db, environment.ADMIN_USERNAME, environment.ADMIN_PASSWORD);
  return startAuth(parts.system, {
    db,
    bus,
    home,
    log,
    clock,
    jwtSecret,
    authenticate,
    tokensChanged,
    adminUsername: environment.ADMIN_USERNAME,
    registry: await registryOf(environment, db),
    sessionTtlSeconds: environment.SESSION_TTL,
    relyingParty: {
      id: environment.WEBAUTHN_RP_ID ?? domain.toLowerCase(),
      origins: environment.WEBAUTHN_ORIGINS,
      tenants: `compute.${domain.toLowerCase()}`,
    },
  });
}
