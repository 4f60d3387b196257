/** What the cluster monitor is given by the composition root. */

import type { Graph } from '../../proto/monitor/endpoints.ts';
import type { Bus } from '../../proto/ports/bus.ts';
import type { Clock } from '../../proto/ports/clock.ts';
import type { Log } from '../../proto/ports/log.ts';
import type { MetricsSource, PodSample } from '../../proto/ports/metrics-source.ts';
import type { Db } from '../../storage/db.ts';

export interface MonitorDeps {
  readonly db: Db;
  readonly bus: Bus;
  readonly log: Log;
  readonly clock: Clock;
  readonly sources: readonly MetricsSource[];
  /** The platform's own processes, as pods of the core namespace; never waits. */
  readonly own: () => readonly PodSample[];
  /** What is connected, besides containers. */
  readonly graph: () => Promise<Pick<Graph, 'nodes' | 'edges'>>;
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

/** What the service has done in this process, for /metrics. */
export interface MonitorNumbers {
  refreshes: number;
  /** Reads of a source that failed or took too long. */
  failures: number;
  /** Clients of event streams and of sockets. */
  streams: number;
  sockets: number;
  /** Snapshots handed to a client, and those left out because a newer one came before it had read. */
  pushed: number;
  skipped: number;
  published: number;
  /** Messages not published, because the broker was away or slow. */
  dropped: number;
  alerts: number;
  /** When nodes and pods were measured last, Unix ms; 0: never. */
  nodesAt: number;
  podsAt: number;
}

/** Numbers that begin at zero. */
export function monitorNumbers(): MonitorNumbers {
  return {
    refreshes: 0,
    failures: 0,
    streams: 0,
    sockets: 0,
    pushed: 0,
    skipped: 0,
    published: 0,
    dropped: 0,
    alerts: 0,
    nodesAt: 0,
    podsAt: 0,
  };
}
