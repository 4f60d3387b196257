/** How a process opens one service, from the parts that all services share. A new role is a file beside this one. */
import { registrySigner } from '../../../actors/auth/registry/registry-key.ts';
import type { Placement } from '../../../actors/service/placement.ts';
import type { SharedSecret } from '../../../proto/auth/shared-secret.ts';
import type { Authenticate, TokenNews } from '../../../proto/auth/tokens.ts';
import type { Service } from '../../../proto/endpoint.ts';
import type { Bus } from '../../../proto/ports/bus.ts';
import type { Clock } from '../../../proto/ports/clock.ts';
import type { Log } from '../../../proto/ports/log.ts';
import type { Db } from '../../../storage/db.ts';
import type { SystemRef } from '../../../supervision/index.ts';
import type { OpenStreams } from '../../../transports/api/open-streams.ts';
import type { Environment } from '../../config/config.ts';
import type { processMetrics } from '../../observability/pages.ts';

/** What the services of a process share. */
export interface RoleParts {
  readonly environment: Environment;
  readonly domain: string;
  readonly db: Db;
  readonly bus: Bus;
  /** What is wrong with the bus at the moment. */
  readonly busProblem: () => string | undefined;
  readonly system: SystemRef;
  readonly log: Log;
  readonly clock: Clock;
  /** JWT_SECRET. */
  readonly jwtSecret: SharedSecret;
  readonly authenticate: Authenticate;
  readonly streams: OpenStreams;
  /** Told of tokens that this process changed. */
  readonly tokensChanged: (news: TokenNews) => void;
  readonly metrics: ReturnType<typeof processMetrics>;
}

/** The same in a process of one role. */
export interface AloneParts extends RoleParts {
  /** Where entities are; undefined when the bus ends at this process, which then knows of no other. */
  readonly placement: Placement | undefined;
  /** Ends what the service needs besides, after its actors have ended. */
  readonly atEnd: (name: string, end: () => Promise<void>) => void;
}

/** A role that a process can have alone. */
export interface Role {
  readonly name: 'auth' | 'compute' | 'notify' | 'monitor';
  /** As in "<title> listens". */
  readonly title: string;
  /** Under which its log is shipped. */
  readonly logName: string;
  /** What it needs besides DATABASE_URL and JWT_SECRET. */
  readonly needs: readonly ('ENCRYPTION_KEY' | 'NATS_URL')[];
  /**
   * `entities`: it holds entities that no other process may hold, and without a broker it is the only process.
   * `events`: it holds entities if there is a broker. `none`: it holds none, and does not wait for the broker.
   */
  readonly holds: 'entities' | 'events' | 'none';
  /** `drain` ends its streams, before its listener ends. */
  open(parts: AloneParts): Promise<{ readonly service: Service; readonly drain?: () => void }>;
}

/** What a process that needs a platform beside it says where there has been none. */
export const NO_PLATFORM = 'There is no platform on this database and machine yet: start it with `troupe up`.';

/** The placement of a role that holds entities. */
export function placementOf({ placement }: AloneParts): Placement {
  if (placement === undefined) throw new TypeError('a role that holds entities is placed');
  return placement;
}

/** What services are told of the image registry, as REGISTRY_HOST and its key name it. Throws as `registrySigner`. */
export async function registryOf(environment: Environment, db: Db) {
  const { REGISTRY_HOST: service, REGISTRY_ISSUER: issuer, REGISTRY_SIGNING_KEY: key } = environment;
  return { service, issuer, signer: key === undefined ? undefined : await registrySigner(db, key) };
}
