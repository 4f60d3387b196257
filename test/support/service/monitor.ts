/** The real monitor on a real database and the embedded bus, behind a real listener; what it measures is the test's own. */
import assert from 'node:assert/strict';
import { z } from 'zod';
import { apiTokens, challengeTokens, sessionTokens } from '../../../actors/auth/tokens/issue-tokens.ts';
import { monitorNumbers } from '../../../actors/monitor/deps.ts';
import { startMonitor } from '../../../actors/monitor/service.ts';
import { newId } from '../../../proto/ids.ts';
import { decodeNotification, NOTIFICATIONS_STREAM, type Notification } from '../../../proto/notify/notification.ts';
import type { ClusterSample, MetricsSource, NodeSample, PodSample } from '../../../proto/ports/metrics-source.ts';
import type { Scopes } from '../../../proto/scopes.ts';
import { deleteApiToken, insertApiToken } from '../../../storage/auth/api-tokens.ts';
import { insertServiceAccount, setServiceAccountScopes } from '../../../storage/auth/service-accounts.ts';
import { tokenDirectory } from '../../../storage/auth/token-directory.ts';
import { insertUser } from '../../../storage/auth/users.ts';
import { streamStore } from '../../../storage/bus/store.ts';
import type { Db } from '../../../storage/db.ts';
import { start, stop, stopped } from '../../../supervision/index.ts';
import { api } from '../../../transports/api/api.ts';
import { authenticator } from '../../../transports/api/authenticate.ts';
import { OpenStreams } from '../../../transports/api/open-streams.ts';
import { jsonReply } from '../../../transports/api/replies.ts';
import { embeddedBus } from '../../../transports/bus/embedded.ts';
import { listen } from '../../../transports/http/index.ts';
import { silentLog, testDatabase } from '../database/database.ts';
import type { Cleanup } from '../temp.ts';
import { type MovableClock, movableClock } from './compute.ts';

const SECRET = 'a secret of the tests, 32 bytes or more';
export const ADMIN = 'boss';

/** Somebody who is logged in. */
export interface Person {
  readonly id: string;
  readonly token: string;
}

/** What the only source says; the test changes it. */
export interface Measured {
  nodes: NodeSample[];
  pods: PodSample[];
  /** Set: the source fails with it. */
  problem: string | undefined;
}

export interface MonitorHouse {
  readonly db: Db;
  readonly clock: MovableClock;
  readonly measured: Measured;
  /** `http://127.0.0.1:<port>` */
  readonly url: string;
  readonly ws: string;
  /** Which adapter serves. */
  readonly adapter: 'own' | 'uws' | 'node';
  person(username: string): Promise<Person>;
  /** An API token of the person, with its id. */
  apiToken(
    person: Person,
    of: { readonly scopes: Scopes } | { readonly account: string },
  ): Promise<{ token: string; tokenId: string }>;
  /** A service account of the person, and what changes its scopes. */
  account(person: Person, scopes: Scopes): Promise<string>;
  setScopes(person: Person, account: string, scopes: Scopes): Promise<void>;
  /** A token that awaits a security key. */
  challenge(person: Person): Promise<string>;
  revoke(person: Person, tokenId: string): Promise<void>;
  forgetUser(person: Person): Promise<void>;
  /** A container of the person, as the database has it. */
  container(person: Person, name: string): Promise<string>;
  /** Notifications on their way to the stream, which nobody takes here. */
  outbox(): Promise<Notification[]>;
  drain(): void;
}

/** Opens it. Nothing is measured before `measured` has something. */
export async function openMonitorHouse(
  t: Cleanup,
  options: { adapter?: 'own' | 'uws' | 'node'; refreshMs?: number } = {},
): Promise<MonitorHouse> {
  const database = await testDatabase();
  const { db } = database;
  const clock = movableClock();
  const bus = embeddedBus({ store: streamStore(db), log: silentLog, lookMs: 200 });
  await bus.ensureStream(NOTIFICATIONS_STREAM);
  const system = start({ log: silentLog });
  const directory = tokenDirectory(db);
  const { authenticate, forget } = authenticator({ secret: SECRET, clock, directory });
  const streams = new OpenStreams(directory, silentLog);
  const news = directory.onNews((change) => {
    forget(change);
    streams.look(change);
  });
  const measured: Measured = { nodes: [], pods: [], problem: 'not yet' };
  let calls = 0;
  const source: MetricsSource = {
    name: 'test',
    get calls() {
      return calls;
    },
    read: async (): Promise<ClusterSample> => {
      calls += 1;
      if (measured.problem !== undefined) throw new Error(measured.problem);
      return { nodes: measured.nodes, pods: measured.pods };
    },
    close: async () => {},
  };
  const numbers = monitorNumbers();
  const service = await startMonitor(system, {
    ...{ db, bus, log: silentLog, clock, sources: [source], own: () => [], numbers, adminUsername: ADMIN },
    graph: {
      ...{ services: () => [], hasGateway: false, bus: { kind: 'embedded', problem: () => undefined } },
      ...{ engine: { kind: 'test', calls: () => 0 }, nodes: async () => [], routes: async () => [] },
      mappings: async () => [],
    },
    refreshMs: options.refreshMs ?? 100,
    pingMs: 1000,
  });
  const health = async () => {
    const { ok, problems } = await service.health();
    return ok ? jsonReply(200, { status: 'ok' }) : jsonReply(503, { status: 'degraded', problems });
  };
  const pages = new Map([['/healthz', { reply: health }]]);
  const handlers = api({ service, authenticate, streams, pages, log: silentLog });
  const server = await listen({ host: '127.0.0.1', port: 0, ...handlers }, options.adapter ?? 'auto');
  t.after(async () => {
    service.drain();
    await server.close(1000);
    stop(system);
    await stopped(system);
    await news.close();
    streams.close();
    await bus.close();
    await database.close();
  });
  return {
    ...{ db, clock, measured, adapter: server.adapter },
    url: `http://127.0.0.1:${server.port}`,
    ws: `ws://127.0.0.1:${server.port}`,
    async person(username) {
      const id = newId();
      assert.ok(await insertUser(db, { id, username, passwordHash: 'none' }));
      const { token } = await sessionTokens(SECRET, 3600, clock)({ id, username, isAdmin: username === ADMIN });
      return { id, token };
    },
    async apiToken({ id: userId }, of) {
      const tokenId = newId();
      const grants = 'account' in of ? { serviceAccountId: of.account } : { scopes: of.scopes };
      assert.ok(
        await insertApiToken(db, { id: tokenId, userId, name: tokenId, grants, expiresAt: undefined, max: 100 }),
      );
      return { token: await apiTokens(SECRET, clock)({ tokenId, userId, expiresAt: undefined }), tokenId };
    },
    async account({ id: userId }, scopes) {
      const id = newId();
      await insertServiceAccount(db, { id, userId, name: id, scopes, max: 100 });
      return id;
    },
    setScopes: async ({ id }, account, scopes) =>
      void (await db.tx((tx) => setServiceAccountScopes(tx, id, account, scopes))),
    challenge: ({ id }) => challengeTokens(SECRET, clock)({ id, username: 'somebody' }),
    revoke: async ({ id }, tokenId) => void (await db.tx((tx) => deleteApiToken(tx, id, tokenId))),
    async forgetUser({ id }) {
      await db.run('delete from users where id = $1', [id]);
      await db.notify('tokens', `user:${id}`);
    },
    async container({ id: userId }, name) {
      const id = newId();
      await db.run(
        `insert into containers (id, user_id, slot, name, instance_type, memory_mb, storage_gb, pull_policy, mount_paths,
           ssh_enabled, desired, status) values ($1, $2, 1, $3, 'mini', 512, 1, 'IfNotPresent', '{}', true, 'running', 'running')`,
        [id, userId, name],
      );
      return id;
    },
    outbox: async () => {
      const rows = await db.many(z.object({ data: z.instanceof(Buffer) }), 'select data from outbox order by id');
      return rows.map(({ data }) => decodeNotification(data));
    },
    drain: () => service.drain(),
  };
}
