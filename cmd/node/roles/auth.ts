/** `troupe auth`: the authentication service alone. Several share the users: each user is awake in one of them. */
import type { AuthDeps } from '../../../actors/auth/deps.ts';
import { registryRights } from '../../../actors/auth/registry/registry-rights.ts';
import { startAuth } from '../../../actors/auth/service.ts';
import { ensureAdmin } from '../../../actors/auth/users/users.ts';
import type { Placement } from '../../../actors/service/placement.ts';
import type { Service } from '../../../proto/endpoint.ts';
import { registryRemoval } from '../../../transports/clients/registry/removal.ts';
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
  const registry = await registryOf(environment, db);
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
    registry: { ...registry, removeImages: imagesRemoval(parts, registry, undefined) },
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

/** What removes the images of a user; undefined without a registry. `address`: where it is asked past its name. */
export function imagesRemoval(
  { environment, db, clock, jwtSecret }: Pick<RoleParts, 'environment' | 'db' | 'clock' | 'jwtSecret'>,
  registry: Awaited<ReturnType<typeof registryOf>>,
  address: string | undefined,
) {
  const { service: host } = registry;
  if (host === undefined) return undefined;
  const deps = { db, clock, jwtSecret, adminUsername: environment.ADMIN_USERNAME, registry };
  return registryRemoval({ host, address, token: registryRights(deps, host).removalToken });
}
