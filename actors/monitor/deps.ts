/** What the cluster monitor is given by the composition root. */
import type { Service } from '../../proto/endpoint.ts';
import type { Bus } from '../../proto/ports/bus.ts';
import type { Clock } from '../../proto/ports/clock.ts';
import type { Log } from '../../proto/ports/log.ts';
import type { MetricsSource, PodSample } from '../../proto/ports/metrics-source.ts';
import type { Db } from '../../storage/db.ts';

export interface MonitorDeps {
  readonly db: Db;
  readonly bus: Bus;
  /** Whether the bus reaches other monitors. */
  readonly isShared: boolean;
  readonly log: Log;
  readonly clock: Clock;
  readonly sources: readonly MetricsSource[];
  /** The platform's own processes, as pods of the core namespace; never waits. */
  readonly own: () => readonly PodSample[];
  readonly graph: GraphSources;
  /** Who is told of machines. */
  readonly adminUsername: string;
  /** Time between two refreshes, ms. */
  readonly refreshMs: number;
  /** Time between two pings on an event stream. Default 15 s. */
  readonly pingMs?: number;
  /** Most clients at once, and of one user. Default 20,000 and 1,000. */
  readonly maxClients?: number;
  readonly maxClientsOfUser?: number;
  readonly numbers: MonitorNumbers;
}

/** What the dependency graph is drawn from, besides the actors of this process and the containers. */
export interface GraphSources {
  /** Services of this process, with `host:port` of their listeners; the monitor among them once it is there. */
  readonly services: () => readonly { readonly service: Pick<Service, 'name' | 'health'>; readonly target?: string }[];
  readonly hasGateway: boolean;
  readonly bus: { readonly kind: 'nats' | 'embedded'; readonly problem: () => string | undefined };
  /** `calls`: made to it for measurements, since the start. */
  readonly engine: { readonly kind: string; readonly calls: () => number };
  /** Requests that a service has answered since the start. */
  readonly requests?: (service: string) => number;
  /** Nodes of the platform, static routes, and mappings of all users. */
  readonly nodes: () => Promise<
    readonly {
      readonly id: string;
      readonly roles: readonly string[];
      readonly leaseMs: number;
      readonly draining: boolean;
    }[]
  >;
  readonly routes: () => Promise<readonly { readonly id: number; readonly target: string }[]>;
  readonly mappings: () => Promise<
    readonly { readonly id: string; readonly status: string; readonly containerId: string }[]
  >;
}

/** What the service has done in this process, for /metrics: numbers that begin at zero. */
export function monitorNumbers() {
  return {
    refreshes: 0,
    /** Reads of a source that failed or took too long. */
    failures: 0,
    /** Clients of event streams and of sockets. */
    streams: 0,
    sockets: 0,
    /** Snapshots handed to a client, and those left out because a newer one came before it had read. */
    pushed: 0,
    skipped: 0,
    published: 0,
    /** Messages not published, because the broker was away or slow. */
    dropped: 0,
    alerts: 0,
    /** When nodes and pods were measured last, Unix ms; 0: never. */
    nodesAt: 0,
    podsAt: 0,
  };
}

export type MonitorNumbers = ReturnType<typeof monitorNumbers>;
