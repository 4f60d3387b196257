/** What commands that run one service alone read alike: where they listen, and what they share with the platform. */

import type { SharedSecret } from '../../proto/auth/shared-secret.ts';
import type { Service } from '../../proto/service.ts';
import type { DbConnection } from '../../storage/db.ts';
import { UPSTREAM_LIMITS } from '../../transports/gateway/h1/upstreams.ts';
import { CliError } from '../config/cli-error.ts';
import type { Environment } from '../config/config.ts';
import { sharedSecret } from '../config/shared-secrets.ts';
import { givenDatabase } from './database.ts';

/**
 * How long a service alone still answers on connections that are open once it was told to end, ms, unless all have
 * ended: longer than a gateway keeps one that it does not use.
 */
export const LINGER_MS = UPSTREAM_LIMITS.idleMs + 1500;

/** What a process that needs a platform beside it says where there has been none. */
export const NO_PLATFORM = 'There is no platform on this database and machine yet: start it with `troupe up`.';

/**
 * DATABASE_URL and JWT_SECRET, which `service` (as in "The cluster monitor") shares with the platform; `besides` is
 * only seen to be there. Throws CliError that names what is missing.
 */
export function sharedWithPlatform(
  service: string,
  environment: Environment,
  besides: readonly (keyof Environment)[] = [],
): { database: DbConnection; secret: SharedSecret } {
  const { JWT_SECRET } = environment;
  const database = givenDatabase(environment);
  const missing = (['DATABASE_URL', 'JWT_SECRET', ...besides] as const).filter(
    (name) => environment[name] === undefined,
  );
  if (database === undefined || JWT_SECRET === undefined || missing.length > 0) {
    const list = missing.length > 1 ? `${missing.slice(0, -1).join(', ')} and ${missing.at(-1)}` : missing[0];
    throw new CliError(`${service} needs ${list}, the same as the platform has.`);
  }
  return { database, secret: sharedSecret(JWT_SECRET, environment) };
}

/** The service, which is not well once `isLeaving`: balancers that ask take it out. */
export function withGoodbye(service: Service, isLeaving: () => boolean): Service {
  return {
    ...service,
    health: async () => {
      const health = await service.health();
      return isLeaving() ? { ok: false, problems: [...health.problems, 'this process was told to end'] } : health;
    },
  };
}

/** `:port` on all addresses, `host:port`, or `[address]:port`. Throws CliError for anything else. */
export function listenAddress(text: string): { host: string; port: number } {
  const [, bracketed, plain, digits] = /^(?:\[([0-9a-fA-F:.]+)\]|([A-Za-z0-9.-]*)):([0-9]{1,5})$/.exec(text) ?? [];
  const port = Number(digits);
  if (digits === undefined || port > 65_535)
    throw new CliError(`--addr is ${text}, but must be host:port, or :port for all addresses.`);
  return { host: bracketed ?? (plain || '0.0.0.0'), port };
}
