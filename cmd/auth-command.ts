/** `troupe auth`: the authentication service alone. */
import { startAuth } from '../actors/auth/service.ts';
import { ensureAdmin } from '../actors/auth/users.ts';
import type { Service } from '../proto/service.ts';
import { type AloneOptions, type AloneParts, runAlone } from './alone.ts';
import { registryOf } from './registry-of.ts';

/** Runs until it is told to stop. */
export function runAuth(options: AloneOptions): Promise<void> {
  return runAlone({ name: 'auth', needs: ['NATS_URL'], open }, options);
}

async function open(parts: AloneParts): Promise<Service> {
  const { environment, domain, db, bus, home, log, clock, jwtSecret, authenticate, tokensChanged } = parts;
  const { generated } = await ensureAdmin(db, environment.ADMIN_USERNAME, environment.ADMIN_PASSWORD);
  if (generated !== null)
    process.stderr.write(`The password of ${environment.ADMIN_USERNAME} is ${generated} (shown only now).\n`);
  return startAuth(parts.system, {
    ...{ db, bus, home, log, clock, jwtSecret, authenticate, tokensChanged },
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
