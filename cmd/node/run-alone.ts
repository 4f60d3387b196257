/** One service in a process of its own: a member of the cluster, beside others on the same database and broker. */
import { noteUse, startLastUse } from '../../actors/auth/tokens/last-use.ts';
import { gatewayTokenVerifier } from '../../proto/gateway/gateway-token.ts';
import { BusError } from '../../proto/ports/bus.ts';
import { EngineError } from '../../proto/ports/engine.ts';
import { hostsOfOthers } from '../../proto/service-paths.ts';
import { databaseClock } from '../../storage/clock.ts';
import { openDb } from '../../storage/db.ts';
import { start, stop, stopped } from '../../supervision/index.ts';
import { api } from '../../transports/api/api.ts';
import { clientAddress } from '../../transports/api/client-address.ts';
import { ListenError, listen } from '../../transports/http/index.ts';
import { CliError } from '../config/cli-error.ts';
import { DEFAULT_DOMAIN, readEnvironment } from '../config/config.ts';
import { proxiesOf } from '../config/proxies.ts';
import { processMetrics, servicePages } from '../observability/pages.ts';
import { type LogServiceOptions, openShippedLog } from '../observability/shipped-log.ts';
import { LINGER_MS, listenAddress, sharedWithPlatform, withGoodbye } from './alone.ts';
import { openAuthentication } from './authentication.ts';
import { openBus, withBusHealth } from './bus.ts';
import { withOperations } from './operations.ts';
import type { AloneParts, Role } from './roles/role.ts';
import { bringUpToDate } from './schema.ts';
import { openShared } from './shared.ts';
import { stopSignal } from './stop-signal.ts';
import { Teardown } from './teardown.ts';

/** Options as the command line gives them. */
interface AloneOptions extends LogServiceOptions {
  readonly addr: string;
  readonly domain: string | undefined;
  readonly json: boolean;
}

const DRAIN_MS = 5000;

/**
 * Runs a role until the process is told to stop: takes nothing new, hands over what it holds, leaves. `variables`: the
 * environment. Throws CliError for what is missing.
 */
export async function runAlone(role: Role, options: AloneOptions, variables = process.env): Promise<void> {
  const environment = readEnvironment(variables);
  const { name, title, holds } = role;
  const { connectionString, secret: jwtSecret } = sharedWithPlatform(title, environment, role.needs);
  const address = listenAddress(options.addr);
  const domain = options.domain ?? environment.PLATFORM_DOMAIN ?? DEFAULT_DOMAIN;
  const proxies = proxiesOf({ trustedProxies: undefined, proxyProtocol: false }, environment);
  const shipped = await openShippedLog(environment.LOG_LEVEL ?? 'info', options, role.logName);
  const { log } = shipped;
  const clock = { now: Date.now };
  const told = stopSignal(environment.LEAVE_DELAY);
  const teardown = new Teardown(log);
  try {
    const db = openDb({ connectionString }, { log, name, max: role.connections });
    teardown.add('database', () => db.close());
    const sharedClock = databaseClock(db);
    teardown.add('shared clock', async () => sharedClock.close());
    await bringUpToDate(db, log);
    const opened = openBus({ environment, db, log, name: `troupe ${name}`, secret: jwtSecret, clock: sharedClock });
    const { bus, problem: busProblem } = opened;
    teardown.add('bus', () => bus.close());
    if (holds !== 'none') await opened.ready((line) => log.warn({}, line), told.received);
    const besides = new Teardown(log);
    teardown.add('what the service needs besides', () => besides.run());
    const system = start({ name, log, onDeadLetter: ({ to, reason }) => log.debug({ to, reason }, 'dead letter') });
    teardown.add('actors', async () => {
      stop(system);
      await stopped(system);
    });
    const lastUse = startLastUse(system, { db, log });
    const callers = openAuthentication({
      db,
      secret: jwtSecret,
      clock,
      log,
      teardown,
      onUse: (tokenId, at) => noteUse(lastUse, tokenId, at),
      changesAMinute: environment.CHANGES_PER_MINUTE,
    });
    const shared = await openShared({
      database: { connectionString },
      db,
      bus,
      system,
      log,
      teardown,
      secret: jwtSecret,
      isShared: environment.NATS_URL !== undefined,
      mustBeAlone: holds === 'entities',
      roles: holds === 'none' ? [] : [name],
      isLeaving: told.received,
    });
    const metrics = processMetrics(system);
    shipped.metrics(metrics.registry);
    const parts = {
      environment,
      domain,
      db,
      bus,
      busProblem,
      system,
      home: shared.home,
      log,
      clock,
      jwtSecret,
      metrics,
    };
    const atEnd: AloneParts['atEnd'] = (what, end) => besides.add(what, end);
    const { service: bare, drain } = await role.open({ ...parts, ...callers, atEnd });
    const sound = holds === 'none' ? bare : withBusHealth(bare, busProblem);
    const service = withGoodbye(holds === 'entities' ? withOperations(sound, system) : sound, told.received);
    await shared.join();
    const handlers = api({
      service,
      authenticate: callers.authenticate,
      streams: callers.streams,
      changes: callers.changes,
      domain,
      log,
      pages: servicePages(service, metrics.registry, environment),
      onReply: metrics.onReply(service.name),
      clientAddress: clientAddress({
        isVouched: gatewayTokenVerifier(jwtSecret, sharedClock),
        hostsOfOthers: hostsOfOthers(name, domain),
        isTrusted: proxies?.isTrusted,
        log,
      }),
    });
    const server = await listen({ ...address, ...handlers }, environment.HTTP_ADAPTER, (line) => log.warn({}, line));
    teardown.add('listener', () => server.close(DRAIN_MS, LINGER_MS));
    if (drain !== undefined) teardown.add('streams', async () => drain());
    process.stdout.write(
      options.json
        ? `${JSON.stringify({ ready: true, port: server.port, domain })}\n`
        : `${title} listens on ${address.host}, port ${server.port}.\n`,
    );
    log.info({ port: server.port }, 'serving');
    await told.promise;
    log.info({}, 'stopping');
  } catch (error) {
    if (error instanceof BusError || error instanceof EngineError || error instanceof ListenError)
      throw new CliError(error.message, { cause: error });
    throw error;
  } finally {
    await teardown.run();
    await shipped.close();
    told.forget();
  }
}
