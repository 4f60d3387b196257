/** One service in a process of its own: a member of the cluster, beside others on the same database and broker. */
import { gatewayTokenVerifier } from '../../proto/gateway/gateway-token.ts';
import { BusError } from '../../proto/ports/bus.ts';
import { EngineError } from '../../proto/ports/engine.ts';
import { hostsOfOthers } from '../../proto/service-paths.ts';
import { api } from '../../transports/api/api.ts';
import { clientAddress } from '../../transports/api/client-address.ts';
import { ListenError, listen } from '../../transports/http/index.ts';
import { CliError } from '../config/cli-error.ts';
import { DEFAULT_DOMAIN, readEnvironment } from '../config/config.ts';
import { proxiesOf } from '../config/proxies.ts';
import { servicePages } from '../observability/pages.ts';
import { type LogServiceOptions, openShippedLog } from '../observability/shipped-log.ts';
import { LINGER_MS, listenAddress, sharedWithPlatform, withGoodbye } from './alone.ts';
import { withBusHealth } from './bus.ts';
import { withOperations } from './operations.ts';
import type { AloneParts, Role } from './roles/role.ts';
import { CLOCK, openDatabase, openRuntime } from './runtime.ts';
import { openShared } from './shared.ts';
import { stopSignal } from './stop-signal.ts';
import { Teardown } from './teardown.ts';

/** Options as the command line gives them. */
export interface AloneOptions extends LogServiceOptions {
  readonly addr: string;
  readonly domain?: string;
  readonly json?: boolean;
}

const DRAIN_MS = 5000;

/**
 * Runs a role until the process is told to stop: takes nothing new, hands over what it holds, leaves. `variables`: the
 * environment. Throws CliError for what is missing.
 */
export async function runAlone(role: Role, options: AloneOptions, variables = process.env): Promise<void> {
  const environment = readEnvironment(variables);
  const { name, title, holds } = role;
  const { database: connection, secret: jwtSecret } = sharedWithPlatform(title, environment, role.needs);
  const address = listenAddress(options.addr);
  const domain = options.domain ?? environment.PLATFORM_DOMAIN ?? DEFAULT_DOMAIN;
  const proxies = proxiesOf({}, environment);
  const shipped = await openShippedLog(environment.LOG_LEVEL ?? 'info', options, role.logName);
  const { log } = shipped;
  const told = stopSignal(environment.LEAVE_DELAY);
  const teardown = new Teardown(log);
  try {
    const database = await openDatabase(connection, { name, service: name, environment, log, teardown });
    const { db, sharedClock } = database;
    const { bus, busProblem, besides, system, callers, metrics, failed } = await openRuntime({
      database,
      environment,
      secret: jwtSecret,
      name,
      busName: `troupe ${name}`,
      waitsForBus: holds !== 'none',
      log,
      teardown,
      onProgress: (line) => log.warn({}, line),
      isLeaving: told.received,
    });
    shipped.metrics(metrics.registry);
    const shared = await openShared({
      environment,
      database: connection,
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
    const parts: AloneParts = {
      environment,
      domain,
      db,
      bus,
      busProblem,
      system,
      placement: shared.placement,
      log,
      clock: CLOCK,
      jwtSecret,
      metrics,
      ...callers,
      atEnd: (what, end) => besides.add(what, end),
    };
    const { service: bare, drain } = await role.open(parts);
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
        isGatewayToken: gatewayTokenVerifier(jwtSecret, sharedClock),
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
    await Promise.race([told.promise, failed]);
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
