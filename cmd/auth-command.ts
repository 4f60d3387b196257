/** `troupe auth`: the authentication service alone, as one of any number of processes on the same database and broker. */
import { noteUse, startLastUse } from '../actors/auth/last-use.ts';
import { registrySigner } from '../actors/auth/registry-key.ts';
import { startAuth } from '../actors/auth/service.ts';
import { ensureAdmin } from '../actors/auth/users.ts';
import { BusError } from '../proto/ports.ts';
import { openDb } from '../storage/db.ts';
import { migrate, migrationsDir } from '../storage/migrate.ts';
import { getSetting } from '../storage/settings.ts';
import { start, stop, stopped } from '../supervision/index.ts';
import { api } from '../transports/api/api.ts';
import { clientAddress } from '../transports/api/client-address.ts';
import { ListenError, listen } from '../transports/http/index.ts';
import { listenAddress, sharedWithPlatform } from './alone.ts';
import { openBus, withBusHealth } from './bus.ts';
import { callersOf } from './callers.ts';
import { CliError } from './cli-error.ts';
import { DEFAULT_DOMAIN, readEnvironment } from './config.ts';
import { openMembership } from './membership.ts';
import { withOperations } from './operations.ts';
import { processMetrics, servicePages } from './pages.ts';
import { proxiesOf } from './proxies.ts';
import { type LogServiceOptions, openShippedLog } from './shipped-log.ts';
import { stopSignal } from './stop-signal.ts';
import { Teardown } from './teardown.ts';

/** Options as the command line gives them. */
export interface AuthCommandOptions extends LogServiceOptions {
  readonly addr: string;
  readonly domain: string | undefined;
  readonly json: boolean;
}

/** How long requests in flight may take at the end, ms. */
const DRAIN_MS = 5000;

/** Runs until it is told to stop. Several share the users: each user is awake in one of them. */
export async function runAuth(options: AuthCommandOptions): Promise<void> {
  const environment = readEnvironment(process.env);
  const { connectionString, secret } = sharedWithPlatform('The authentication service', environment);
  const database = { connectionString };
  const address = listenAddress(options.addr);
  const domain = options.domain ?? environment.PLATFORM_DOMAIN ?? DEFAULT_DOMAIN;
  const proxies = proxiesOf({ trustedProxies: undefined, proxyProtocol: false }, environment);
  const shipped = await openShippedLog(environment.LOG_LEVEL ?? 'info', options, 'auth');
  const { log } = shipped;
  const clock = { now: Date.now };
  const told = stopSignal();
  const teardown = new Teardown(log);
  try {
    const db = openDb(database, { log, name: 'auth', max: 16 });
    teardown.add('database', () => db.close());
    await migrate(db, migrationsDir, log);
    // Nobody would read a generated password here: `troupe users add` makes users, too.
    if (environment.ADMIN_PASSWORD !== undefined)
      await ensureAdmin(db, environment.ADMIN_USERNAME, environment.ADMIN_PASSWORD);
    const installation = (await getSetting(db, 'installation')) ?? '';
    const opened = openBus(environment, db, `troupe auth ${installation}`.trim(), log);
    const { bus } = opened;
    teardown.add('bus', () => bus.close());
    await opened.ready((line) => log.warn({}, line), told.received);
    const system = start({
      ...{ name: 'auth', log },
      onDeadLetter: ({ to, reason }) => log.debug({ to, reason }, 'dead letter'),
    });
    teardown.add('actors', async () => {
      stop(system);
      await stopped(system);
    });
    const lastUse = startLastUse(system, { db, log });
    const onUse = (tokenId: string, at: number) => noteUse(lastUse, tokenId, at);
    const { authenticate, streams, tokensChanged } = callersOf({ db, secret, clock, log, teardown, onUse });
    const membership = await openMembership({
      ...{ database, system, bus, log, onProgress: (line) => log.warn({}, line) },
      ...{ isShared: environment.NATS_URL !== undefined, isLeaving: told.received },
    });
    teardown.add('membership', () => membership.leave());
    const registryKey = environment.REGISTRY_SIGNING_KEY;
    const auth = await startAuth(system, {
      ...{ db, bus, home: membership.home, log, clock, authenticate, tokensChanged },
      ...{ jwtSecret: secret, adminUsername: environment.ADMIN_USERNAME },
      sessionTtlSeconds: environment.SESSION_TTL,
      relyingParty: {
        id: environment.WEBAUTHN_RP_ID ?? domain.toLowerCase(),
        origins: environment.WEBAUTHN_ORIGINS,
        tenants: `compute.${domain.toLowerCase()}`,
      },
      registry: {
        service: environment.REGISTRY_HOST,
        issuer: environment.REGISTRY_ISSUER,
        signer: registryKey === undefined ? undefined : await registrySigner(db, registryKey),
      },
    });
    await membership.join();
    const service = withOperations(withBusHealth(auth, opened.problem), system);
    const metrics = processMetrics(system);
    shipped.metrics(metrics.registry);
    const handlers = api({
      ...{ service, authenticate, streams, domain, log },
      pages: servicePages(service, metrics.registry),
      onReply: metrics.onReply(service.name),
      clientAddress: clientAddress({ gatewaySecret: undefined, isTrusted: proxies?.isTrusted }),
    });
    const server = await listen({ ...address, ...handlers }, environment.HTTP_ADAPTER);
    teardown.add('listener', () => server.close(DRAIN_MS));
    process.stdout.write(
      options.json
        ? `${JSON.stringify({ ready: true, port: server.port, domain })}\n`
        : `The authentication service listens on ${address.host}, port ${server.port}.\n`,
    );
    log.info({ port: server.port }, 'serving');
    await told.promise;
    log.info({}, 'stopping');
  } catch (error) {
    if (error instanceof BusError || error instanceof ListenError) throw new CliError(error.message, { cause: error });
    throw error;
  } finally {
    await teardown.run();
    await shipped.close();
    told.forget();
  }
}
