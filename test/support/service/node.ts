/** A node of a platform in the test's process: what its services share, and how the node ends. */
import { Registry } from 'prom-client';
import { refusalCauses } from '../../../actors/service/codecs.ts';
import { readEnvironment } from '../../../cmd/config/config.ts';
import type { RoleParts } from '../../../cmd/node/roles/role.ts';
import { Teardown } from '../../../cmd/node/shutdown.ts';
import type { TokenNews } from '../../../proto/auth/tokens.ts';
import { newId } from '../../../proto/ids.ts';
import type { KeptAnswers } from '../../../proto/kept-answers.ts';
import { NOTIFICATIONS_STREAM } from '../../../proto/notify/notification.ts';
import type { Bus } from '../../../proto/ports/bus.ts';
import type { StreamStore } from '../../../proto/ports/bus-store.ts';
import { tokenDirectory } from '../../../storage/auth/token-directory.ts';
import { deadLetterSink } from '../../../storage/bus/dead-letters.ts';
import { streamStore } from '../../../storage/bus/store.ts';
import { type Db, openDb } from '../../../storage/db.ts';
import { keptAnswers } from '../../../storage/idempotency.ts';
import { outboxStore } from '../../../storage/outbox.ts';
import { leaseStore } from '../../../storage/placement/leases.ts';
import { timerStore } from '../../../storage/placement/timers.ts';
import { start, stop, stopped } from '../../../supervision/index.ts';
import { Cluster, type Timings } from '../../../supervision/placement/index.ts';
import { openAuthentication } from '../../../transports/api/authentication.ts';
import { embeddedBus } from '../../../transports/bus/embedded.ts';
import { relayOutbox } from '../../../transports/bus/relay.ts';
import { type MovableClock, movableClock } from '../clock.ts';
import { type TestDatabase, testDatabase } from '../database/database.ts';
import { type FailingDb, failingDb } from '../database/failing-db.ts';
import { type KeptLog, keptLog, silentLog } from '../log.ts';
import type { Cleanup } from '../temp.ts';
import { until } from '../until.ts';

export const SECRET = 'a secret of the tests, 32 bytes or more';
export const DOMAIN = 'cloud.test';
/** Into how many shards each service is cut. */
export const SHARDS = 16;
/** Of nodes that others take over from: short leases, long enough for a busy machine. */
export const SHORT_LEASES = { beatMs: 200, ttlMs: 2000, marginMs: 500, answerMs: 1000, lookMs: 20 };

/** What a node is made of; without `database` and `bus` it has its own. */
export interface NodeOptions {
  readonly database?: TestDatabase;
  /** Ended by its owner. */
  readonly bus?: Bus;
  /** A broker to be reached instead, as `host:port`. */
  readonly nats?: string;
  /** Services whose entities it may hold; without them it does not join. */
  readonly roles?: readonly string[];
  readonly timings?: Partial<Timings>;
  readonly clock?: MovableClock;
  readonly log?: KeptLog;
  readonly domain?: string;
  readonly environment?: Parameters<typeof readEnvironment>[0];
  /** By what pauses of its actors are divided. */
  readonly pace?: number;
  /** Whether it publishes the outbox. */
  readonly relays?: boolean;
}

/** A node, as its services see it and as its test does. */
export interface TestNode extends RoleParts {
  readonly database: TestDatabase;
  /** Of its services; the test can make it fail. */
  readonly db: FailingDb;
  /** The database as another process has it. */
  readonly outside: Db;
  readonly store: StreamStore;
  readonly placement: Cluster;
  readonly log: KeptLog;
  readonly clock: MovableClock;
  /** Answers of requests with a key. */
  readonly kept: KeptAnswers;
  /** What services here told of tokens. */
  readonly news: readonly TokenNews[];
  /** Takes its share of the entities. */
  join(): Promise<void>;
  /** Ends something before the node. */
  before(what: string, end: () => Promise<unknown>): void;
  /** Leaves the cluster and ends; again waits for the same end. */
  end(): Promise<void>;
  /** Hands over what it holds first. */
  leave(): Promise<void>;
  /** Ends as if the process had died: nobody is told. */
  kill(): Promise<void>;
}

async function openBus(nats: string | undefined, db: Db): Promise<Bus> {
  if (nats === undefined) return embeddedBus({ store: streamStore(db), log: silentLog, lookMs: 200 });
  const { natsBus } = await import('../../../transports/bus/nats.ts');
  const { BUS_SECRET } = await import('../bus/nats-server.ts');
  const bus = natsBus({
    secret: BUS_SECRET,
    address: { servers: [nats] },
    name: 'test',
    log: silentLog,
    deadLetters: deadLetterSink(db),
  });
  await until(() => bus.connected(1000), { what: 'the bus is there' });
  return bus;
}

/** Opens a node, which ends with `t`. */
export async function startNode(t: Cleanup, options: NodeOptions = {}): Promise<TestNode> {
  const { roles = [], timings = {}, clock = movableClock(), log = keptLog(), domain = DOMAIN, pace = 1 } = options;
  const teardown = new Teardown({
    ...silentLog,
    error: (fields, message) => {
      throw new Error(message, { cause: fields });
    },
  });
  const database = options.database ?? (await testDatabase());
  if (options.database === undefined) teardown.add('database', () => database.close());
  const outside = openDb(database.connection, { log: silentLog, name: 'outside', max: 4 });
  teardown.add('outside', () => outside.close());
  const store = streamStore(database.db);
  const bus = options.bus ?? (await openBus(options.nats, database.db));
  if (options.bus === undefined) teardown.add('bus', () => bus.close());
  await bus.ensureStream(NOTIFICATIONS_STREAM);
  if (options.relays === true) {
    const relaying = new AbortController();
    const relayed = relayOutbox({ store: outboxStore(database.db), bus, log: silentLog, signal: relaying.signal });
    teardown.add('relay', () => {
      relaying.abort();
      return relayed;
    });
  }
  const db = failingDb(database.db);
  const callers = openAuthentication({
    directory: tokenDirectory(db),
    secret: SECRET,
    clock,
    log: silentLog,
    kept: keptAnswers(db, SECRET),
    changePace: { burst: Number.MAX_SAFE_INTEGER, perSecond: 1 },
    onUse: () => {},
  });
  teardown.add('callers', () => callers.close());
  const system = start({ log, freezeMessages: true, pace });
  teardown.add('actors', () => {
    stop(system);
    return stopped(system);
  });
  const self = { id: newId(), roles, version: 'test', address: 'test' };
  const lease = leaseStore(database.db);
  const placement = new Cluster({
    ...{ parent: system, self, store: lease, bus, log: silentLog, shards: SHARDS, timings, causes: refusalCauses },
    ...{ timers: timerStore(db), timersEveryMs: 100 },
  });
  let isMember = false;
  teardown.add('membership', () => (isMember ? placement.leave() : placement.halt()));
  const news: TokenNews[] = [];
  const end = () => {
    db.failure = undefined;
    return teardown.run();
  };
  t.after(end);
  return {
    environment: readEnvironment(options.environment ?? {}),
    domain,
    database,
    db,
    outside,
    store,
    bus,
    busProblem: () => undefined,
    system,
    placement,
    log,
    clock,
    jwtSecret: SECRET,
    authenticate: callers.authenticate,
    streams: callers.streams,
    kept: callers.kept,
    news,
    tokensChanged: (change) => {
      news.push(change);
      callers.tokensChanged(change);
    },
    metrics: { registry: new Registry(), onReply: () => () => {}, requests: () => 0 },
    join: () => {
      isMember = true;
      return placement.join();
    },
    before: (what, end) => teardown.add(what, end),
    end,
    leave: () => placement.drain().then(end),
    kill: () => {
      isMember = false;
      return end();
    },
  };
}

/** Waits until the nodes share all shards of a service. */
export async function settled(...nodes: readonly Pick<TestNode, 'placement'>[]): Promise<void> {
  const holding = () => nodes.map(({ placement }) => placement.node.holding);
  await until(() => holding().every((n) => n > 0) && holding().reduce((sum, n) => sum + n, 0) === SHARDS, {
    what: 'the nodes share the shards',
  });
}
