/**
 * `troupe monitor`: the cluster monitor alone, beside a platform on the same database and engine (interface section
 * 4.6).
 */

import { databaseClock } from '../../storage/clock.ts';
import { openDb } from '../../storage/db.ts';
import { getSetting } from '../../storage/settings.ts';
import { start, stop, stopped } from '../../supervision/index.ts';
import { api } from '../../transports/api/api.ts';
import { findDocker } from '../../transports/engines/docker/host/dockerd.ts';
import { dockerMetrics } from '../../transports/engines/docker/stats/metrics.ts';
import { listen } from '../../transports/http/index.ts';
import { CliError } from '../config/cli-error.ts';
import { readEnvironment } from '../config/config.ts';
import { diskPathsOf } from '../config/disk-paths.ts';
import { processMetrics, servicePages } from '../observability/pages.ts';
import { type LogServiceOptions, openShippedLog } from '../observability/shipped-log.ts';
import { LINGER_MS, listenAddress, sharedWithPlatform, withGoodbye } from './alone.ts';
import { openAuthentication } from './authentication.ts';
import { openBus } from './bus.ts';
import { openKubernetesMetrics } from './kubernetes.ts';
import { nodeName, openMonitor } from './monitor.ts';
import { bringUpToDate } from './schema.ts';
import { openShared } from './shared.ts';
import { stopSignal } from './stop-signal.ts';
import { Teardown } from './teardown.ts';

/** Options as the command line gives them. */
export interface MonitorCommandOptions extends LogServiceOptions {
  readonly addr: string;
  /** `5s`, `500ms`. */
  readonly refresh: string;
  /** The engine, as DOCKER_HOST has it. */
  readonly apiServer: string | undefined;
  /** Comma-separated, as NATS_URL has it. */
  readonly nats: string | undefined;
  readonly json: boolean;
}

const DRAIN_MS = 5000;

/** Runs until it is told to stop. */
export async function runMonitor(options: MonitorCommandOptions): Promise<void> {
  const environment = readEnvironment({
    ...process.env,
    ...(options.nats === undefined ? {} : { NATS_URL: options.nats }),
    ...(options.apiServer === undefined ? {} : { DOCKER_HOST: options.apiServer }),
  });
  const { connectionString, secret } = sharedWithPlatform('The cluster monitor', environment);
  const address = listenAddress(options.addr);
  const refreshMs = parseRefresh(options.refresh);
  const shipped = await openShippedLog(environment.LOG_LEVEL ?? 'info', options, 'cluster-monitor');
  const { log } = shipped;
  const clock = { now: Date.now };
  const told = stopSignal(environment.LEAVE_DELAY);
  const teardown = new Teardown(log);
  try {
    const db = openDb({ connectionString }, { log, name: 'monitor', max: 4 });
    teardown.add('database', () => db.close());
    const sharedClock = databaseClock(db);
    teardown.add('shared clock', async () => sharedClock.close());
    await bringUpToDate(db, log);
    const installation = await getSetting(db, 'installation');
    const isKubernetes = environment.COMPUTE_ENGINE === 'kubernetes';
    const host = isKubernetes ? undefined : await findDocker(environment);
    if (installation === undefined || (host === undefined && !isKubernetes))
      throw new CliError('There is no platform on this database and machine yet: start it with `troupe up`.');
    // The broker may be away: metrics do not wait for it.
    const opened = openBus({
      environment,
      db,
      log,
      secret,
      clock: sharedClock,
      name: `troupe monitor ${installation}`,
    });
    teardown.add('bus', () => opened.bus.close());
    const system = start({ name: 'monitor', log });
    teardown.add('actors', async () => {
      stop(system);
      await stopped(system);
    });
    const { authenticate, streams } = openAuthentication({
      db,
      secret,
      clock,
      log,
      teardown,
      changesAMinute: environment.CHANGES_PER_MINUTE,
    });
    const metrics = processMetrics(system);
    shipped.metrics(metrics.registry);
    const monitor = await openMonitor({
      system,
      db,
      bus: opened.bus,
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
        bus: { kind: environment.NATS_URL === undefined ? 'embedded' : 'nats', problem: opened.problem },
        engineKind: environment.COMPUTE_ENGINE,
      },
    });
    teardown.add('sources', () => monitor.close());
    const shared = await openShared({
      secret,
      database: { connectionString },
      db,
      bus: opened.bus,
      system,
      log,
      teardown,
      isLeaving: told.received,
      isShared: environment.NATS_URL !== undefined,
      roles: [],
    });
    await shared.join();
    const service = withGoodbye(monitor.service, told.received);
    const pages = servicePages(service, metrics.registry, environment);
    const handlers = api({ service, authenticate, streams, pages, log, onReply: metrics.onReply(service.name) });
    const server = await listen({ ...address, ...handlers }, environment.HTTP_ADAPTER, (line) => log.warn({}, line));
    teardown.add('listener', () => server.close(DRAIN_MS, LINGER_MS));
    teardown.add('streams', async () => monitor.service.drain());
    process.stdout.write(
      options.json
        ? `${JSON.stringify({ ready: true, port: server.port })}\n`
        : `The cluster monitor listens on ${address.host}, port ${server.port}.\n`,
    );
    await told.promise;
    log.info({}, 'stopping');
  } finally {
    await teardown.run();
    await shipped.close();
    told.forget();
  }
}

/** `5s`, `500ms` or `1m` in ms; from 100 ms to an hour. Throws CliError for anything else. */
export function parseRefresh(text: string): number {
  const [, digits, unit = ''] = /^([0-9]{1,7})(ms|s|m)$/.exec(text) ?? [];
  const ms = Number(digits) * ({ ms: 1, s: 1000, m: 60_000 }[unit] ?? Number.NaN);
  if (!(ms >= 100 && ms <= 3_600_000))
    throw new CliError(`--refresh is ${text}, but must be a time such as 5s or 500ms, from 100ms to 60m.`);
  return ms;
}
