/** What the gateway is given by the composition root. */
import type { ComputeNewsSource } from '../../proto/compute/events.ts';
import type { CacheMode } from '../../proto/gateway/cache-mode.ts';
import type { ConsoleFiles } from '../../proto/gateway/console-files.ts';
import type { Entrance } from '../../proto/gateway/gateway-decider.ts';
import type { SignGatewayToken } from '../../proto/gateway/gateway-token.ts';
import type { AccessProofs, PortGuard } from '../../proto/gateway/port-guard.ts';
import type { NewRoute, StaticRoute } from '../../proto/gateway/routes.ts';
import type { WriteBarrier } from '../../proto/gateway/write-barrier.ts';
import type { MappingSource } from '../../proto/ports/acme.ts';
import type { SharedClock } from '../../proto/ports/clock.ts';
import type { Engine } from '../../proto/ports/engine.ts';
import type { Log } from '../../proto/ports/log.ts';
import type { PasswordHashes } from '../../proto/ports/passwords.ts';
import type { Db } from '../../storage/db.ts';

/** Where a container is reached, and what of it is open to the outside. */
export interface ContainerTarget {
  /** The user whose it is; absent: not known. */
  readonly owner?: string;
  /** Undefined while it does not run. */
  readonly address: string | undefined;
  /** It has none, but is being started: it is about to get one. */
  readonly isComing?: boolean;
  /** The name at which it is reached beside its id; absent: none. */
  readonly addressName?: string;
  /** External port -> port inside. */
  readonly ports: ReadonlyMap<number, number>;
  /** The external ports at which TLS ends here; absent: it is the container's at each. */
  readonly endsTls?: ReadonlySet<number>;
  /** By external port, what the response cache keeps of the answers; absent: `default`. */
  readonly caches?: ReadonlyMap<number, CacheMode>;
  /** By external port, what asks visitors there; absent: everybody gets through. */
  readonly guards?: ReadonlyMap<number, PortGuard>;
}

export interface GatewayDeps {
  readonly db: Db;
  readonly log: Log;
  /** Parent domain of all services. */
  readonly domain: string;
  /** Parent domain of the containers' names. */
  readonly containersDomain: string;
  /** Routes of a file, beside those of the table. */
  readonly fileRoutes: readonly StaticRoute[];
  /**
   * Where the services of this very process are. They take the place of those that the table knows, which may be
   * another process's: this gateway goes on when that one ends. Routes of operators win over both.
   */
  readonly ownRoutes?: readonly NewRoute[] | undefined;
  /** What runs the containers. */
  readonly engine: Pick<Engine, 'list' | 'inspect'>;
  /** Verified mappings; undefined: no hosts are mapped here. */
  readonly mappings?: MappingSource | undefined;
  /** Tells of changes that containers, and logins by SSH, depend on. */
  readonly computeNews: ComputeNewsSource;
  /** Where requests go that match nothing else; undefined: they get 404. */
  readonly fallback: { readonly host: string; readonly port: number } | undefined;
  /** The console, shown at the domain; undefined: it was not built, and a page says what this is. */
  readonly console?: ConsoleFiles | undefined;
  /**
   * Strict-Transport-Security of answers at the platform's own names, with the platform's certificate; undefined: they
   * have none.
   */
  readonly strictTransport?: string | undefined;
  /** Signs requests to services of the platform, which then believe the client's address. */
  readonly gatewayToken: SignGatewayToken;
  /** What is kept of the answers at this address counts no more: another program answers there, or less is kept. */
  readonly forgetAnswers?: (address: string) => void;
  /** The container at this address was just started: its program may take a while until it takes connections. */
  readonly expectProgram?: (address: string) => void;
  /** Another container has the place of the one at this address, which is ended soon. */
  readonly leaveOrigin?: (address: string) => void;
  /** Rules or names were taken away, or ask visitors now: what `admits` says no of, and goes on, is to end. */
  readonly endShut?: (admits: (entrance: Entrance) => boolean) => void;
  /** Passes of visitors at guarded ports, and the passwords that they give. */
  readonly accessProofs: AccessProofs;
  /** Before the registry that comes along; undefined: there is none. */
  readonly barrier?: WriteBarrier | undefined;
  readonly passwords: Pick<PasswordHashes, 'verify'>;
  readonly sharedClock: SharedClock;
  /** Numbers in the text format of Prometheus, for `/metrics`. */
  readonly metrics: () => Promise<string>;
  /** What is wrong with the bus, a sentence; undefined while it is well. */
  readonly busProblem?: () => string | undefined;
}
