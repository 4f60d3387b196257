/** What the gateway is given by the composition root. */

import type { ComputeNewsSource } from '../../proto/compute/events.ts';
import type { NewRoute, StaticRoute } from '../../proto/gateway/routes.ts';
import type { MappedHost } from '../../proto/ports/acme.ts';
import type { Ending } from '../../proto/ports/ending.ts';
import type { Log } from '../../proto/ports/log.ts';
import type { Db } from '../../storage/db.ts';

/** Where a container is reached, and what of it is open to the outside. */
export interface ContainerTarget {
  /** Undefined while it does not run. */
  readonly address: string | undefined;
  /** It has none, but is being started: it is about to get one. */
  readonly isComing?: boolean;
  /** External port -> port inside. */
  readonly ports: ReadonlyMap<number, number>;
}

/** Where verified mappings come from. */
export interface MappingSource {
  /** All of them, by hostname. */
  read(): Promise<ReadonlyMap<string, MappedHost>>;
  /** Calls back when one was verified or removed, and whenever that may have been missed. */
  watch(onChange: () => void): Ending;
}

export interface GatewayDeps {
  readonly db: Db;
  readonly log: Log;
  /** Parent domain of all services and containers. */
  readonly domain: string;
  /** Routes of a file, beside those of the table. */
  readonly fileRoutes: readonly StaticRoute[];
  /**
   * Where the services of this very process are. They take the place of those that the table knows, which may be
   * another process's: this gateway goes on when that one ends. Routes of operators win over both.
   */
  readonly ownRoutes?: readonly NewRoute[] | undefined;
  /**
   * All containers that have a port open, and the named ones, by id. Of those that are not `changed` the address may be
   * the one found last; `all`: each is looked at.
   */
  readonly containers: (
    also: ReadonlySet<string>,
    changed: ReadonlySet<string> | 'all',
  ) => Promise<ReadonlyMap<string, ContainerTarget>>;
  /** Verified mappings; undefined: no hosts are mapped here. */
  readonly mappings?: MappingSource | undefined;
  /** Says when somebody may no longer enter by SSH. */
  readonly computeNews: ComputeNewsSource;
  /** Where requests go that nothing else takes; undefined: they get 404. */
  readonly fallback: { readonly host: string; readonly port: number } | undefined;
  /** Numbers in the text format of Prometheus, for `/metrics`. */
  readonly metrics: () => Promise<string>;
  /** What is wrong with the bus, a sentence; undefined while it is well. */
  readonly busProblem?: () => string | undefined;
  /**
   * The ports we listen on for HTTP and HTTPS; the outside knows them as 80 and 443 too. And
   * the port of SSH, 2222 without it.
   */
  readonly ports: { readonly http: number; readonly https: number; readonly ssh?: number };
}
