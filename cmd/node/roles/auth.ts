/** `troupe auth`: the authentication service alone. Several share the users: each user is awake in one of them. */
import type { AuthDeps } from '../../../actors/auth/deps.ts';
import { startAuth } from '../../../actors/auth/service.ts';
import { ensureAdmin } from '../../../actors/auth/users/users.ts';
import type { Placement } from '../../../actors/service/placement.ts';
import type { Service } from '../../../proto/endpoint.ts';
import { containersDomain } from '../../config/containers-domain.ts';
import { auditMetrics } from '../../observability/metrics.ts';
import { placementOf, type Role, type RoleParts, registryOf } from './role.ts';

export const AUTH: Role = {
  name: 'auth',
  title: 'The authentication service',
  logName: 'auth',
  needs: [],
  holds: 'entities',
  open: async (parts) => {
    const { environment, db, metrics } = parts;
    // Nobody would read a generated password here: `troupe users add` makes users, too.
    if (environment.ADMIN_PASSWORD !== undefined)
      await ensureAdmin(db, environment.ADMIN_USERNAME, environment.ADMIN_PASSWORD);
    auditMetrics(metrics.registry, db);
    return { service: await openAuth(parts, placementOf(parts)) };
  },
};

/** Starts the authentication service. `overrides`: what takes the place of the usual parts. */
export async function openAuth(
  parts: RoleParts,
  placement: Placement,
  overrides: Partial<AuthDeps> = {},
): Promise<Service> {
  const { environment, domain, db, bus, log, clock, jwtSecret, authenticate, tokensChanged } = parts;
  return startAuth(parts.system, {
    db,
    bus,
    placement,
    log,
    clock,
    jwtSecret,
    authenticate,
    tokensChanged,
    adminUsername: environment.ADMIN_USERNAME,
    registry: await registryOf(environment, db),
    sessionTtlSeconds: environment.SESSION_TTL,
    domain: domain.toLowerCase(),
    relyingParty: {
      id: environment.WEBAUTHN_RP_ID ?? domain.toLowerCase(),
      origins: environment.WEBAUTHN_ORIGINS,
      tenants: containersDomain(environment, domain),
    },
    ...overrides,
  });
}
