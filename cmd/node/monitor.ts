/** Puts the cluster monitor together: its sources, its numbers and what it draws the dependency graph from. */
import { hostname } from 'node:os';
import type { Registry } from 'prom-client';
import { type GraphSources, type MonitorDeps, monitorNumbers } from '../../actors/monitor/deps.ts';
import { type MonitorService, startMonitor } from '../../actors/monitor/service.ts';
import { CORE_NAMESPACE } from '../../proto/monitor/endpoints.ts';
import type { Bus } from '../../proto/ports/bus.ts';
import type { Clock } from '../../proto/ports/clock.ts';
import type { Log } from '../../proto/ports/log.ts';
import type { MetricsSource } from '../../proto/ports/metrics-source.ts';
import type { Db } from '../../storage/db.ts';
import { listRoutes } from '../../storage/gateway/routes.ts';
import { allMappings } from '../../storage/network/overview.ts';
import { listNodes } from '../../storage/placement/nodes.ts';
import type { SystemRef } from '../../supervision/index.ts';
import { hostMetrics, ownProcess } from '../../transports/clients/host/metrics.ts';
import { monitorMetrics } from '../observability/monitor-metrics.ts';

/** How often everything is measured unless told otherwise, ms. */
export const DEFAULT_REFRESH_MS = 5000;

/** Mappings in the graph, which only the administrator sees: more could not be read. */
const MAX_MAPPINGS_DRAWN = 1000;

/** What it is built from. */
interface MonitorParts {
  readonly system: SystemRef;
  readonly db: Db;
  readonly bus: Bus;
  readonly log: Log;
  readonly clock: Clock;
  /** Measures containers; undefined: there is nothing that does. */
  readonly containers: MetricsSource | undefined;
  /** Folders on the disks that count. */
  readonly diskPaths: readonly string[];
  /** Who is told of machines. */
  readonly adminUsername: string;
  readonly refreshMs: number;
  readonly registry: Registry;
  /** Name of this process among the platform's own. */
  readonly processName: string;
  readonly graph: Pick<GraphSources, 'services' | 'hasGateway' | 'requests' | 'bus'> & { readonly engineKind: string };
}

/** The name under which this machine stands among the nodes. */
export const nodeName = (): string => hostname();

/**
 * Starts it. What comes back ends its sources; its actors end with the system. `overrides`: what takes the place of
 * the usual parts.
 */
export async function openMonitor(
  parts: MonitorParts,
  overrides: Partial<MonitorDeps> = {},
): Promise<{ service: MonitorService; close(): Promise<void> }> {
  const { system, db, bus, log, clock, containers, refreshMs, graph } = parts;
  const node = nodeName();
  const sources = [
    ...(containers?.measuresNodes === true ? [] : [hostMetrics({ name: node, paths: parts.diskPaths })]),
    ...(containers === undefined ? [] : [containers]),
  ];
  const numbers = monitorNumbers();
  monitorMetrics(parts.registry, numbers, sources);
  const service = await startMonitor(system, {
    db,
    bus,
    log,
    clock,
    sources,
    refreshMs,
    numbers,
    adminUsername: parts.adminUsername,
    own: ownProcess({ name: parts.processName, namespace: CORE_NAMESPACE, node }),
    graph: {
      services: graph.services,
      hasGateway: graph.hasGateway,
      bus: graph.bus,
      ...(graph.requests === undefined ? {} : { requests: graph.requests }),
      engine: { kind: graph.engineKind, calls: () => containers?.calls ?? 0 },
      nodes: () => listNodes(db),
      routes: () => listRoutes(db),
      mappings: () => allMappings(db, MAX_MAPPINGS_DRAWN),
    },
    ...overrides,
  });
  return {
    service,
    close: async () => {
      await Promise.all(sources.map((source) => source.close()));
    },
  };
}
