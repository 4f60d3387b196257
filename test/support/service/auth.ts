/** The real authentication service on a real database and the embedded bus, called as a transport calls it. */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import type { RegistryDeps } from '../../../actors/auth/deps.ts';
import { startAuth } from '../../../actors/auth/service.ts';
import { addUser } from '../../../actors/auth/users/users.ts';
import { type Identity, identitySchema, login } from '../../../proto/auth/endpoints.ts';
import type { TokenNews } from '../../../proto/auth/tokens.ts';
import type { Caller, Endpoint, ReplyOf } from '../../../proto/endpoint.ts';
import type { Bus } from '../../../proto/ports/bus.ts';
import type { Service } from '../../../proto/service.ts';
import { tokenDirectory } from '../../../storage/auth/token-directory.ts';
import { streamStore } from '../../../storage/bus/store.ts';
import { openDb } from '../../../storage/db.ts';
import { outboxStore } from '../../../storage/outbox.ts';
import { type SystemRef, start, stop, stopped } from '../../../supervision/index.ts';
import type { Cluster } from '../../../supervision/placement/index.ts';
import { authenticator } from '../../../transports/api/authenticate.ts';
import { embeddedBus } from '../../../transports/bus/embedded.ts';
import { relayOutbox } from '../../../transports/bus/relay.ts';
import { silentLog, testDatabase } from '../database/database.ts';
import {
  call,
  type FailingDb,
  failingDb,
  type Input,
  type KeptLog,
  keptLog,
  type MovableClock,
  movableClock,
} from './compute.ts';
import { testHome } from './one-node.ts';

export const SECRET = 'a secret of the tests, 32 bytes or more';
export const RELYING_PARTY = { id: 'troupe.test', origins: undefined, tenants: 'compute.troupe.test' };
export const PASSWORD = 'correct horse battery';

export interface House {
  readonly db: FailingDb;
  /** The database as another process has it. */
  readonly outside: ReturnType<typeof openDb>;
  readonly service: Service;
  readonly system: SystemRef;
  readonly bus: Bus;
  readonly home: Cluster;
  readonly clock: MovableClock;
  readonly log: KeptLog;
  call<E extends Endpoint>(endpoint: E, caller: Caller | undefined, input?: Input): Promise<ReplyOf<E>>;
  /** Tries to log in. */
  login(username: string, password: string, address?: string): Promise<Identity>;
  /** Logs in, and returns who the token proves. */
  enter(username: string, password?: string): Promise<Caller>;
  /** What the service told this node about tokens. */
  readonly news: readonly TokenNews[];
  /** Whom a token proves now. */
  prove(token: string): Promise<Caller | undefined>;
}

export interface HouseOptions {
  readonly registry?: RegistryDeps;
}

/** The waits that the throttle asked for are over. */
export async function unblock(house: House): Promise<void> {
  await house.db.run('update login_attempts set blocked_until = now()');
  house.clock.advance(1000); // A node may believe a block for a second.
}

/** A house of one test, with a user `ann`, gone with it. */
export async function openHouse(t: TestContext, { registry = {} }: HouseOptions = {}): Promise<House> {
  const database = await testDatabase();
  const outside = openDb(database.connection, { log: silentLog, name: 'outside', max: 4 });
  const db = failingDb(database.db);
  const [clock, log, relaying] = [movableClock(), keptLog(), new AbortController()];
  const system = start({ log });
  const bus = embeddedBus({ store: streamStore(database.db), log: silentLog });
  const home = testHome({ system, db: database.db, bus, log: silentLog });
  const relayed = relayOutbox({ store: outboxStore(database.db), bus, log: silentLog, signal: relaying.signal });
  t.after(async () => {
    db.failure = undefined;
    await home.leave();
    stop(system);
    await stopped(system);
    relaying.abort();
    await relayed;
    await bus.close();
    await outside.close();
    await database.close();
  });
  const news: TokenNews[] = [];
  const { authenticate, forget } = authenticator({ secret: SECRET, clock, directory: tokenDirectory(db) });
  const tokensChanged = (change: TokenNews) => {
    news.push(change);
    forget(change);
  };
  const service = await startAuth(system, {
    ...{ db, bus, home, log, clock, jwtSecret: SECRET, authenticate, tokensChanged },
    ...{ sessionTtlSeconds: 3600, adminUsername: 'admin', registry, relyingParty: RELYING_PARTY },
  });
  await home.join();
  await addUser(outside, 'ann', PASSWORD);
  const prove = async (token: string) => authenticate(token);
  const house: House = {
    ...{ db, bus, home, outside, service, system, clock, log, prove, news },
    call: (endpoint, caller, input) => call(service, endpoint, caller, input),
    login: async (username, password, address = '192.0.2.1') =>
      identitySchema.parse(await call(service, login, undefined, { body: { username, password }, address })),
    enter: async (username, password = PASSWORD) => {
      const caller = await prove((await house.login(username, password)).token);
      assert.ok(caller);
      return caller;
    },
  };
  return house;
}
