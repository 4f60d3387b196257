/** `troupe notify`: the notification service alone, beside a platform on the same database (interface section 4.7). */
import { notifyNumbers } from '../../actors/notify/deps.ts';
import { startNotify } from '../../actors/notify/service.ts';
import { BusError } from '../../proto/ports/bus.ts';
import { databaseClock } from '../../storage/clock.ts';
import { openDb } from '../../storage/db.ts';
import { getSetting } from '../../storage/settings.ts';
import { start, stop, stopped } from '../../supervision/index.ts';
import { api } from '../../transports/api/api.ts';
import { listen } from '../../transports/http/index.ts';
import { CliError } from '../config/cli-error.ts';
import { DEFAULT_DOMAIN, readEnvironment } from '../config/config.ts';
import { notifyMetrics, processMetrics, servicePages } from '../observability/pages.ts';
import { type LogServiceOptions, openShippedLog } from '../observability/shipped-log.ts';
import { LINGER_MS, listenAddress, sharedWithPlatform, withGoodbye } from './alone.ts';
import { openAuthentication } from './authentication.ts';
import { openBus, withBusHealth } from './bus.ts';
import { bringUpToDate } from './schema.ts';
import { openShared } from './shared.ts';
import { stopSignal } from './stop-signal.ts';
import { Teardown } from './teardown.ts';

/** Options as the command line gives them. */
export interface NotifyCommandOptions extends LogServiceOptions {
  readonly addr: string;
  readonly domain: string | undefined;
  readonly json: boolean;
}

const DRAIN_MS = 5000;

/** Runs until it is told to stop. */
export async function runNotify(options: NotifyCommandOptions): Promise<void> {
  const environment = readEnvironment(process.env);
  const { connectionString, secret } = sharedWithPlatform('The notification service', environment);
  const address = listenAddress(options.addr);
  const domain = options.domain ?? environment.PLATFORM_DOMAIN ?? DEFAULT_DOMAIN;
  const shipped = await openShippedLog(environment.LOG_LEVEL ?? 'info', options, 'notify');
  const { log } = shipped;
  const clock = { now: Date.now };
  const told = stopSignal(environment.LEAVE_DELAY);
  const teardown = new Teardown(log);
  try {
    const db = openDb({ connectionString }, { log, name: 'notify', max: 8 });
    teardown.add('database', () => db.close());
    const sharedClock = databaseClock(db);
    teardown.add('shared clock', async () => sharedClock.close());
    await bringUpToDate(db, log);
    const installation = (await getSetting(db, 'installation')) ?? '';
    const opened = openBus({
      environment,
      db,
      log,
      secret,
      clock: sharedClock,
      name: `troupe notify ${installation}`.trim(),
    });
    const { bus } = opened;
    teardown.add('bus', () => bus.close());
    await opened.ready((line) => log.warn({}, line), told.received);
    const system = start({ name: 'notify', log });
    teardown.add('actors', async () => {
      stop(system);
      await stopped(system);
    });
    const { authenticate, streams, changes } = openAuthentication({
      db,
      secret,
      clock,
      log,
      teardown,
      changesAMinute: environment.CHANGES_PER_MINUTE,
    });
    const numbers = notifyNumbers();
    const shared = await openShared({
      secret,
      database: { connectionString },
      db,
      bus,
      system,
      log,
      teardown,
      isLeaving: told.received,
      isShared: environment.NATS_URL !== undefined,
      roles: ['notify'],
    });
    const { home } = shared;
    const service = withGoodbye(
      withBusHealth(await startNotify(system, { db, bus, log, clock, numbers, home }), opened.problem),
      told.received,
    );
    await shared.join();
    const metrics = processMetrics(system);
    shipped.metrics(metrics.registry);
    notifyMetrics(metrics.registry, numbers);
    const pages = servicePages(service, metrics.registry, environment);
    const onReply = metrics.onReply(service.name);
    const handlers = api({ service, authenticate, streams, changes, pages, domain, log, onReply });
    const server = await listen({ ...address, ...handlers }, environment.HTTP_ADAPTER, (line) => log.warn({}, line));
    teardown.add('listener', () => server.close(DRAIN_MS, LINGER_MS));
    process.stdout.write(
      options.json
        ? `${JSON.stringify({ ready: true, port: server.port, domain })}\n`
        : `The notification service listens on ${address.host}, port ${server.port}.\n`,
    );
    await told.promise;
    log.info({}, 'stopping');
  } catch (error) {
    throw error instanceof BusError ? new CliError(error.message, { cause: error }) : error;
  } finally {
    await teardown.run();
    await shipped.close();
    told.forget();
  }
}
