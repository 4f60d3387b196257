/** One service in a process of its own: a member of the cluster, beside others on the same database and broker. */
import type { SharedSecret } from '../../proto/auth/shared-secret.ts';
import { gatewayTokenVerifier } from '../../proto/gateway/gateway-token.ts';
import { BusError } from '../../proto/ports/bus.ts';
import { EngineError } from '../../proto/ports/engine.ts';
import { hostsOfOthers } from '../../proto/service-paths.ts';
import type { DbConnection } from '../../storage/db.ts';
import { notedGateway } from '../../storage/gateway/gateway-address.ts';
import { api } from '../../transports/api/api.ts';
import { clientAddress } from '../../transports/api/client-address.ts';
import { UPSTREAM_LIMITS } from '../../transports/gateway/h1/upstreams.ts';
import { ListenError, listen } from '../../transports/http/index.ts';
import { CliError } from '../config/cli-error.ts';
import { saveCompiledCode } from '../config/compiled-code.ts';
import { DEFAULT_DOMAIN, type Environment, readEnvironment } from '../config/config.ts';
import { proxiesOf } from '../config/gateway-options.ts';
import { addressIn } from '../config/listen-address.ts';
import { sharedSecret } from '../config/shared-secrets.ts';
import { servicePages } from '../observability/pages.ts';
import { type LogServiceOptions, openShippedLog } from '../observability/shipped-log.ts';
import { givenDatabase } from './database.ts';
import { ActorOperations, withOperations, withProblem } from './operations.ts';
import { platformFacts } from './platform-facts.ts';
import { platformOperations } from './platform-operations.ts';
import type { AloneParts, Role } from './roles/role.ts';
import { CLOCK, openDatabase, openRuntime } from './runtime.ts';
import { openShared } from './shared.ts';
import { stopSignal, Teardown } from './shutdown.ts';
import { chooseWires } from './wires.ts';

/** Options as the command line gives them. */
export interface AloneOptions extends LogServiceOptions {
  readonly addr: string;
  readonly domain?: string;
  readonly json?: boolean;
}

const DRAIN_MS = 5000;
/**
 * How long a service alone still answers on connections that are open once it was told to end, ms, unless all have
 * ended: longer than a gateway keeps one that it does not use.
 */
const LINGER_MS = UPSTREAM_LIMITS.idleMs + 1500;

/**
 * Runs a role until the process is told to stop: takes nothing new, hands over what it holds, leaves. `variables`: the
 * environment. Throws CliError for what is missing.
 */
export async function runAlone(role: Role, options: AloneOptions, variables = process.env): Promise<void> {
  const environment = readEnvironment(variables);
  const { name, title, holds } = role;
  const { database: connection, secret: jwtSecret } = sharedWithPlatform(title, environment, role.needs);
  const address = addressIn('--addr', options.addr);
  const domain = options.domain ?? environment.PLATFORM_DOMAIN ?? DEFAULT_DOMAIN;
  const proxies = proxiesOf({}, environment);
  const shipped = await openShippedLog(environment.LOG_LEVEL ?? 'info', options, role.logName);
  const { log } = shipped;
  await chooseWires(environment, log);
  const told = stopSignal(environment.LEAVE_DELAY);
  const teardown = new Teardown(log);
  try {
    const database = await openDatabase(connection, { name, service: name, environment, log, teardown });
    const { db, sharedClock } = database;
    const { bus, busProblem, besides, system, post, callers, metrics, tracing, failed } = await openRuntime({
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
    const sound = holds === 'none' ? bare : withProblem(bare, busProblem);
    const operations = [
      ...(holds === 'entities' ? [new ActorOperations(post, db)] : []),
      ...(name === 'auth'
        ? [
            platformOperations(db),
            platformFacts({ db, environment, domain, gatewayAddress: await notedGateway(db, CLOCK, log) }),
          ]
        : []),
    ];
    const operated = withOperations(sound, ...operations);
    // Balancers that ask take it out.
    const service = withProblem(operated, () => (told.received() ? 'this process was told to end' : undefined));
    await shared.join();
    const handlers = api({
      service,
      ...callers,
      domain,
      log,
      pages: servicePages(service, metrics.registry, environment),
      onReply: metrics.onReply(service.name),
      trace: tracing?.requests(service.name),
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
    saveCompiledCode();
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

/**
 * DATABASE_URL and JWT_SECRET, which `service` (as in "The cluster monitor") shares with the platform; `besides` is
 * only seen to be there. Throws CliError that names what is missing.
 */
function sharedWithPlatform(
  service: string,
  environment: Environment,
  besides: readonly (keyof Environment)[] = [],
): { database: DbConnection; secret: SharedSecret } {
  const { JWT_SECRET } = environment;
  const database = givenDatabase(environment);
  const missing = (['DATABASE_URL', 'JWT_SECRET', ...besides] as const).filter(
    (name) => environment[name] === undefined,
  );
  if (database === undefined || JWT_SECRET === undefined || missing.length > 0) {
    const list = missing.length > 1 ? `${missing.slice(0, -1).join(', ')} and ${missing.at(-1)}` : missing[0];
    throw new CliError(`${service} needs ${list}, the same as the platform has.`);
  }
  return { database, secret: sharedSecret(JWT_SECRET, environment) };
}
