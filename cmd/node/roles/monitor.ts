/** `troupe monitor`: the cluster monitor alone, beside a platform on the same database and engine. */
import type { MonitorService } from '../../../actors/monitor/service.ts';
import { getSetting } from '../../../storage/settings.ts';
import { findDocker } from '../../../transports/engines/docker/host/find-docker.ts';
import { dockerMetrics } from '../../../transports/engines/docker/stats/metrics.ts';
import { CliError } from '../../config/cli-error.ts';
import { diskPathsOf } from '../../config/disk-paths.ts';
import { NO_PLATFORM } from '../alone.ts';
import { openKubernetesMetrics } from '../kubernetes.ts';
import { nodeName, openMonitor } from '../monitor.ts';
import type { AloneParts, Role } from './role.ts';

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
