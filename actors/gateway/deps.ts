/** What the gateway is given by the composition root. */
import type { ComputeNewsSource } from '../../proto/compute-news.ts';
import type { Log } from '../../proto/ports.ts';
import type { StaticRoute } from '../../proto/routes.ts';
import type { Db } from '../../storage/db.ts';

/** Where a container is reached, and what of it is open to the outside. */
export interface ContainerTarget {
  /** Undefined while it does not run. */
  readonly address: string | undefined;
  /** External port -> port inside. */
  readonly ports: ReadonlyMap<number, number>;
}

export interface GatewayDeps {
  readonly db: Db;
  readonly log: Log;
  /** Parent domain of all services and containers. */
  readonly domain: string;
  /** Routes of a file, beside those of the table. */
  readonly fileRoutes: readonly StaticRoute[];
  /** All containers that have a port open, by id. */
  readonly containers: () => Promise<ReadonlyMap<string, ContainerTarget>>;
  /** Says when somebody may no longer enter by SSH. */
  readonly computeNews: ComputeNewsSource;
  /** Where requests go that nothing else takes; undefined: they get 404. */
  readonly fallback: { readonly host: string; readonly port: number } | undefined;
  /** Numbers in the text format of Prometheus, for `/metrics`. */
  readonly metrics: () => Promise<string>;
  /** What is wrong with the bus, a sentence; undefined while it is well. */
  readonly busProblem?: () => string | undefined;
  /** The ports we listen on for HTTP and HTTPS; the outside knows them as 80 and 443 too (interface section 4.5). */
  readonly ports: { readonly http: number; readonly https: number };
}
