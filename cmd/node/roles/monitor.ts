/** `troupe monitor`: the cluster monitor alone, beside a platform on the same database and engine. */
import { existsSync } from 'node:fs';
import { hostname } from 'node:os';
import type { Registry } from 'prom-client';
import { type GraphSources, type MonitorDeps, monitorNumbers } from '../../../actors/monitor/deps.ts';
import { type MonitorService, startMonitor } from '../../../actors/monitor/service.ts';
import { CORE_NAMESPACE } from '../../../proto/monitor/endpoints.ts';
import type { Bus } from '../../../proto/ports/bus.ts';
import type { Clock } from '../../../proto/ports/clock.ts';
import type { Log } from '../../../proto/ports/log.ts';
import type { MetricsSource } from '../../../proto/ports/metrics-source.ts';
import type { Db } from '../../../storage/db.ts';
import { listRoutes } from '../../../storage/gateway/routes.ts';
import { allMappings } from '../../../storage/network/overview.ts';
import { listNodes } from '../../../storage/placement/nodes.ts';
import { getSetting } from '../../../storage/settings.ts';
import type { SystemRef } from '../../../supervision/index.ts';
import { hostMetrics, ownProcess } from '../../../transports/clients/host/metrics.ts';
import { dockerDataRoot, findDocker } from '../../../transports/engines/docker/host/find-docker.ts';
import { dockerMetrics } from '../../../transports/engines/docker/stats/metrics.ts';
import { CliError } from '../../config/cli-error.ts';
import type { Environment } from '../../config/config.ts';
import { monitorMetrics } from '../../observability/metrics.ts';
import { openKubernetesMetrics } from '../kubernetes.ts';
import { type AloneParts, NO_PLATFORM, type Role } from './role.ts';

/** The role of a monitor that measures every `refreshMs`. */
export function monitorRole(refreshMs: number): Role {
  return {
    name: 'monitor',
    title: 'The cluster monitor',
    logName: 'cluster-monitor',
    needs: [],
    holds: 'none',
    open: async (parts) => {
      const service = await open(parts, refreshMs);
      return { service, drain: () => service.drain() };
    },
  };
}

async function open(parts: AloneParts, refreshMs: number): Promise<MonitorService> {
  const { environment, system, db, bus, log, clock, metrics } = parts;
  const installation = await getSetting(db, 'installation');
  const isKubernetes = environment.COMPUTE_ENGINE === 'kubernetes';
  const host = isKubernetes ? undefined : await findDocker(environment);
  if (installation === undefined || (host === undefined && !isKubernetes)) throw new CliError(NO_PLATFORM);
  const monitor = await openMonitor({
    system,
    db,
    bus,
    log,
    clock,
    refreshMs,
    registry: metrics.registry,
    diskPaths: await diskPathsOf({ environment, dataDir: undefined, dockerHost: host }),
    adminUsername: environment.ADMIN_USERNAME,
    containers:
      host === undefined
        ? openKubernetesMetrics(environment, { installation, log })
        : dockerMetrics({ host, installation, node: nodeName(), log }),
    processName: 'monitor',
    graph: {
      services: () => [{ service: monitor.service }],
      hasGateway: false,
      bus: { kind: environment.NATS_URL === undefined ? 'embedded' : 'nats', problem: parts.busProblem },
      engineKind: environment.COMPUTE_ENGINE,
    },
  });
  parts.atEnd('sources', () => monitor.close());
  return monitor.service;
}

/** `5s`, `500ms` or `1m` in ms; from 100 ms to an hour. Throws CliError for anything else. */
export function parseRefresh(text: string): number {
  const [, digits, unit = ''] = /^([0-9]{1,7})(ms|s|m)$/.exec(text) ?? [];
  const ms = Number(digits) * ({ ms: 1, s: 1000, m: 60_000 }[unit] ?? Number.NaN);
  if (!(ms >= 100 && ms <= 3_600_000))
    throw new CliError(`--refresh is ${text}, but must be a time such as 5s or 500ms, from 100ms to 60m.`);
  return ms;
}

/** How often everything is measured unless told otherwise, ms. */
export const DEFAULT_REFRESH_MS = 5000;

/** Mappings in the graph, which only the administrator sees: more could not be read. */
const MAX_MAPPINGS_DRAWN = 1000;

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
    isShared: graph.bus.kind === 'nats',
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

/** DISK_PATHS, else the data folder and Docker's own if they are here, else `/`. Throws CliError for a missing one. */
export async function diskPathsOf(parts: {
  readonly environment: Pick<Environment, 'DISK_PATHS'>;
  readonly dataDir: string | undefined;
  /** Undefined: containers run on other machines. */
  readonly dockerHost: string | undefined;
}): Promise<readonly string[]> {
  const { environment, dataDir, dockerHost } = parts;
  const given = environment.DISK_PATHS;
  if (given !== undefined) {
    const missing = given.find((path) => !existsSync(path));
    if (missing !== undefined) throw new CliError(`DISK_PATHS names ${missing}, which is not there.`);
    return given;
  }
  // An engine in another mount namespace names a folder that cannot be seen from here.
  const found = [dataDir, dockerHost === undefined ? undefined : await dockerDataRoot(dockerHost)].filter(
    (path): path is string => path !== undefined && existsSync(path),
  );
  return found.length > 0 ? found : ['/'];
}
