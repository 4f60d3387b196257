/** One service in a process of its own: a member of the cluster, beside others on the same database and broker. */
import { noteUse, startLastUse } from '../../actors/auth/tokens/last-use.ts';
import type { Placement } from '../../actors/service/placement.ts';
import type { SharedSecret } from '../../proto/auth/shared-secret.ts';
import type { Authenticate, TokenNews } from '../../proto/auth/tokens.ts';
import { gatewayTokenVerifier } from '../../proto/gateway/gateway-token.ts';
import { type Bus, BusError } from '../../proto/ports/bus.ts';
import type { Clock } from '../../proto/ports/clock.ts';
import { EngineError } from '../../proto/ports/engine.ts';
import type { Log } from '../../proto/ports/log.ts';
import type { Service } from '../../proto/service.ts';
import { hostsOfOthers } from '../../proto/service-paths.ts';
import { databaseClock } from '../../storage/clock.ts';
import { type Db, openDb } from '../../storage/db.ts';
import { type SystemRef, start, stop, stopped } from '../../supervision/index.ts';
import { api } from '../../transports/api/api.ts';
import { clientAddress } from '../../transports/api/client-address.ts';
import type { OpenStreams } from '../../transports/api/open-streams.ts';
import { ListenError, listen } from '../../transports/http/index.ts';
import { CliError } from '../config/cli-error.ts';
import { DEFAULT_DOMAIN, type Environment, readEnvironment } from '../config/config.ts';
import { proxiesOf } from '../config/proxies.ts';
import { auditMetrics } from '../observability/audit-metrics.ts';
import { processMetrics, servicePages } from '../observability/pages.ts';
import { type LogServiceOptions, openShippedLog } from '../observability/shipped-log.ts';
import { LINGER_MS, listenAddress, sharedWithPlatform, withGoodbye } from './alone.ts';
import { openAuthentication } from './authentication.ts';
import { openBus, withBusHealth } from './bus.ts';
import { openMembership } from './membership.ts';
import { withOperations } from './operations.ts';
import { relayOnce } from './relay.ts';
import { bringUpToDate } from './schema.ts';
import { stopSignal } from './stop-signal.ts';
import { Teardown } from './teardown.ts';

/** Options as the command line gives them. */
export interface AloneOptions extends LogServiceOptions {
  readonly addr: string;
  readonly domain: string | undefined;
  readonly json: boolean;
}

/** What a service is made of. */
export interface AloneParts {
  readonly environment: Environment;
  readonly domain: string;
  readonly db: Db;
  readonly bus: Bus;
  readonly system: SystemRef;
  readonly home: Placement;
  readonly log: Log;
  readonly clock: Clock;
  /** JWT_SECRET. */
  readonly jwtSecret: SharedSecret;
  readonly authenticate: Authenticate;
  readonly streams: OpenStreams;
  /** Told of tokens that this process changed. */
  readonly tokensChanged: (news: TokenNews) => void;
  /** Ends what the service needs besides, after its actors have ended. */
  readonly atEnd: (name: string, end: () => Promise<void>) => void;
}

/** A service that can run so. */
export interface AloneService {
  readonly name: 'auth' | 'compute';
  /** As in "The <title> service listens". */
  readonly title: string;
  /** What it needs besides DATABASE_URL and JWT_SECRET. */
  readonly needs: readonly ('ENCRYPTION_KEY' | 'NATS_URL')[];
  open(parts: AloneParts): Promise<Service>;
}

const DRAIN_MS = 5000;

/**
 * Runs until it is told to stop: takes nothing new, hands over what it holds, leaves. Throws CliError for what is
 * missing.
 */
export async function runAlone({ name, title, needs, open }: AloneService, options: AloneOptions): Promise<void> {
  const environment = readEnvironment(process.env);
  const { connectionString, secret: jwtSecret } = sharedWithPlatform(`The ${title} service`, environment, needs);
  const address = listenAddress(options.addr);
  const domain = options.domain ?? environment.PLATFORM_DOMAIN ?? DEFAULT_DOMAIN;
  const proxies = proxiesOf({ trustedProxies: undefined, proxyProtocol: false }, environment);
  const shipped = await openShippedLog(environment.LOG_LEVEL ?? 'info', options, name);
  const { log } = shipped;
  const clock = { now: Date.now };
  const told = stopSignal(environment.LEAVE_DELAY);
  const teardown = new Teardown(log);
  try {
    const db = openDb({ connectionString }, { log, name, max: 16 });
    teardown.add('database', () => db.close());
    const sharedClock = databaseClock(db);
    teardown.add('shared clock', async () => sharedClock.close());
    await bringUpToDate(db, log);
    const opened = openBus({
      environment,
      db,
      log,
      name: `troupe ${name}`,
      secret: jwtSecret,
      clock: sharedClock,
    });
    const { bus } = opened;
    teardown.add('bus', () => bus.close());
    const onProgress = (line: string) => log.warn({}, line);
    await opened.ready(onProgress, told.received);
    const besides = new Teardown(log);
    teardown.add('what the service needs besides', () => besides.run());
    const system = start({ name, log, onDeadLetter: ({ to, reason }) => log.debug({ to, reason }, 'dead letter') });
    teardown.add('actors', async () => {
      stop(system);
      await stopped(system);
    });
    const lastUse = startLastUse(system, { db, log });
    const onUse = (tokenId: string, at: number) => noteUse(lastUse, tokenId, at);
    const callers = openAuthentication({
      db,
      secret: jwtSecret,
      clock,
      log,
      teardown,
      onUse,
      changesAMinute: environment.CHANGES_PER_MINUTE,
    });
    const membership = await openMembership({
      database: { connectionString },
      system,
      bus,
      log,
      onProgress,
      isLeaving: told.received,
      isShared: environment.NATS_URL !== undefined,
      roles: [name, 'outbox'],
      secret: jwtSecret,
    });
    teardown.add('membership', () => membership.leave());
    const { home } = membership;
    const atEnd: AloneParts['atEnd'] = (what, end) => besides.add(what, end);
    const parts = { environment, domain, db, bus, system, home, log, clock, jwtSecret, atEnd, ...callers };
    const service = withGoodbye(
      withOperations(withBusHealth(await open(parts), opened.problem), system),
      told.received,
    );
    relayOnce(system, { db, bus, home, log });
    await membership.join();
    const metrics = processMetrics(system);
    shipped.metrics(metrics.registry);
    if (name === 'auth') auditMetrics(metrics.registry, db);
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
    process.stdout.write(
      options.json
        ? `${JSON.stringify({ ready: true, port: server.port, domain })}\n`
        : `The ${title} service listens on ${address.host}, port ${server.port}.\n`,
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
