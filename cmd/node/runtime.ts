/** What every process of the platform has, whatever its roles: the database, the bus, its actors, and who calls. */
import { noteUse, startLastUse } from '../../actors/auth/tokens/last-use.ts';
import { messageType } from '../../actors/service/dispatch.ts';
import { errorText } from '../../lib/errors.ts';
import type { SharedSecret } from '../../proto/auth/shared-secret.ts';
import type { Bus } from '../../proto/ports/bus.ts';
import type { Clock } from '../../proto/ports/clock.ts';
import type { Log } from '../../proto/ports/log.ts';
import { tokenDirectory } from '../../storage/auth/token-directory.ts';
import { databaseClock } from '../../storage/clock.ts';
import { type Db, type DbConnection, openDb } from '../../storage/db.ts';
import { keptAnswers } from '../../storage/idempotency.ts';
import { listNodes } from '../../storage/placement/nodes.ts';
import type { ServiceWithRole } from '../../storage/rights.ts';
import { type SystemRef, start, stop, stopped } from '../../supervision/index.ts';
import { type Authentication, openAuthentication } from '../../transports/api/authentication.ts';
import { changePace } from '../config/change-pace.ts';
import { CliError } from '../config/cli-error.ts';
import type { Environment } from '../config/config.ts';
import { processMetrics } from '../observability/pages.ts';
import { openTracing, type Tracing } from '../observability/tracing.ts';
import { ActorPost } from './actor-post.ts';
import { openBus } from './bus.ts';
import { bringUpToDate, refuseWithoutRights } from './database.ts';
import { Teardown } from './shutdown.ts';

// uWebSockets.js reads this while it loads: without it a request head of over 4 KiB in several packets is refused.
process.env.UWS_HTTP_MAX_HEADERS_SIZE ??= '16384';

/** The clock of this machine. */
export const CLOCK: Clock = { now: Date.now };

/** Connections that a process has besides those for everything: one listens, and renews its lease. */
const RESERVED = 1;

/** A database whose schema is this version's, and its clock, which all processes share. */
export interface ProcessDatabase {
  readonly db: Db;
  readonly sharedClock: ReturnType<typeof databaseClock>;
  /** How many migrations were applied now. */
  readonly applied: number;
}

/**
 * Opens the database with as many connections as it may have, and brings its schema up to date. `former`: the node that
 * this process was before; `service`: the only one that it runs, whose rights suffice. Both end with `teardown`. Throws
 * as `bringUpToDate` and `refuseWithoutRights`.
 */
export async function openDatabase(
  database: DbConnection,
  options: {
    readonly name: string;
    readonly environment: Pick<Environment, 'DATABASE_CONNECTIONS'>;
    readonly log: Log;
    readonly teardown: Teardown;
    readonly former?: Parameters<typeof bringUpToDate>[2];
    readonly service?: ServiceWithRole;
  },
): Promise<ProcessDatabase> {
  const { name, environment, log, teardown, former, service } = options;
  const db = openDb(database, { log, name, max: environment.DATABASE_CONNECTIONS - RESERVED });
  teardown.add('database', () => db.close());
  const sharedClock = databaseClock(db);
  teardown.add('shared clock', async () => sharedClock.close());
  const applied = await bringUpToDate(db, log, former);
  if (service !== undefined) await refuseWithoutRights(db, service);
  return { db, sharedClock, applied: applied.length };
}

/** What the runtime of a process is opened from. */
interface RuntimeOptions {
  readonly database: ProcessDatabase;
  readonly environment: Environment;
  /** JWT_SECRET. */
  readonly secret: SharedSecret;
  /** Of its actors. */
  readonly name: string;
  /** Of its connection to the broker. */
  readonly busName: string;
  /** Whether it starts only once the bus is there. */
  readonly waitsForBus: boolean;
  readonly log: Log;
  readonly teardown: Teardown;
  /** Lines for the person who waits. */
  readonly onProgress: (line: string) => void;
  readonly isLeaving: () => boolean;
}

/** A process without a role yet. */
export interface Runtime {
  readonly bus: Bus;
  /** What is wrong with the bus at the moment. */
  readonly busProblem: () => string | undefined;
  /** Ends what the actors use, once they have ended. */
  readonly besides: Teardown;
  readonly system: SystemRef;
  /** Asks other processes about their actors, and answers them. */
  readonly post: ActorPost;
  readonly callers: Authentication;
  readonly metrics: ReturnType<typeof processMetrics>;
  /** Undefined without a collector. */
  readonly tracing: Tracing | undefined;
  /** Rejects with CliError when a service cannot be kept running: the process should end then. */
  readonly failed: Promise<never>;
}

/** Opens it; all of it ends with `teardown`. Throws BusError, and CliError where waiting for the bus was ended. */
export async function openRuntime(options: RuntimeOptions): Promise<Runtime> {
  const { environment, secret, name, log, teardown } = options;
  const { db, sharedClock } = options.database;
  const opened = await openBus({ environment, db, log, name: options.busName, secret, clock: sharedClock });
  teardown.add('bus', () => opened.bus.close());
  if (environment.NATS_URL !== undefined) db.tellOver(opened.bus);
  if (options.waitsForBus) await opened.ready(options.onProgress, options.isLeaving);
  const besides = new Teardown(log);
  teardown.add('what the actors use', () => besides.run());
  let fail: (error: CliError) => void = () => {};
  const failed = new Promise<never>((_, reject) => {
    fail = reject;
  });
  // Also while nobody waits for it: the process may be starting, or ending.
  failed.catch(() => {});
  const tracing = openTracing(environment, name);
  if (tracing !== undefined) teardown.add('spans', () => tracing.close());
  const system = start({
    name,
    log,
    ...(tracing === undefined ? {} : { tracer: tracing }),
    messageType,
    onDeadLetter: ({ to, reason }) => log.debug({ to, reason }, 'dead letter'),
    onGivingUp: (service, cause) => {
      log.error({ service, err: cause }, 'a service cannot be kept running: the process ends');
      const last = errorText(cause, 'unknown');
      fail(
        new CliError(`The ${service} service fails whenever it is restarted (${last}): the process ends.`, { cause }),
      );
    },
  });
  teardown.add('actors', async () => {
    stop(system);
    await stopped(system);
  });
  const post = new ActorPost({
    system,
    bus: opened.bus,
    isShared: environment.NATS_URL !== undefined,
    name,
    log,
    nodes: async () => (await listNodes(db)).filter(({ leaseMs }) => leaseMs > 0),
  });
  teardown.add('post about actors', () => post.close());
  const lastUse = startLastUse(system, { db, log });
  const callers = openAuthentication({
    directory: tokenDirectory(db),
    secret,
    clock: CLOCK,
    log,
    kept: keptAnswers(db, secret),
    changePace: changePace(environment),
    onUse: (tokenId, at) => noteUse(lastUse, tokenId, at),
  });
  teardown.add('callers', () => callers.close());
  const metrics = processMetrics(system);
  tracing?.metrics(metrics.registry);
  return {
    bus: opened.bus,
    busProblem: opened.problem,
    besides,
    system,
    post,
    callers,
    metrics,
    tracing,
    failed,
  };
}
