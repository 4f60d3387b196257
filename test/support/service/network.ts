/** The real networking API on a real database, with a stand-in for the provider and a real DNS server. */
import assert from 'node:assert/strict';
import { createSecretKey } from 'node:crypto';
import { Registry } from 'prom-client';
import { z } from 'zod';
import { apiTokens, sessionTokens } from '../../../actors/auth/tokens/issue-tokens.ts';
import { readEnvironment } from '../../../cmd/config/config.ts';
import { openNetworkApi } from '../../../cmd/node/network.ts';
import { servicePages } from '../../../cmd/observability/pages.ts';
import { newId } from '../../../proto/ids.ts';
import type { NetworkNews } from '../../../proto/network/events.ts';
import type { Scopes } from '../../../proto/scopes.ts';
import { insertApiToken } from '../../../storage/auth/api-tokens.ts';
import { tokenDirectory } from '../../../storage/auth/token-directory.ts';
import { insertUser } from '../../../storage/auth/users.ts';
import { insertContainer } from '../../../storage/compute/containers.ts';
import type { Db } from '../../../storage/db.ts';
import { networkNews } from '../../../storage/network/news.ts';
import { start, stop, stopped } from '../../../supervision/index.ts';
import { authenticator } from '../../../transports/api/authenticate.ts';
import { OpenStreams } from '../../../transports/api/open-streams.ts';
import { silentLog, testDatabase } from '../database/database.ts';
import { type StandIn, standIn } from '../network/dns-provider.ts';
import { type DnsServer, dnsServer } from '../network/dns-server.ts';
import type { Cleanup } from '../temp.ts';
import { type KeptLog, keptLog, type MovableClock, movableClock } from './compute.ts';

export const SECRET = 'a secret of the tests, 32 bytes or more';
export const DOMAIN = 'cloud.test';
export const INGRESS = 'ingress.cloud.test';
export const KEY = createSecretKey(Buffer.alloc(32, 7));
const clock = { now: Date.now };

export interface Person {
  readonly id: string;
  readonly token: string;
}

export interface Reply {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  readonly json: Record<string, unknown>;
}

export interface World {
  readonly url: string;
  readonly db: Db;
  readonly clock: MovableClock;
  readonly log: KeptLog;
  readonly provider: StandIn;
  readonly dns: DnsServer;
  readonly news: NetworkNews[];
  person(): Promise<Person>;
  /** An API token of the person. */
  apiToken(person: Person, scopes: Scopes): Promise<string>;
  container(person: Person): Promise<string>;
  call(token: string, method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<Reply>;
  /** Creates a mapping and returns its view. */
  map(person: Person, domain: string, containerId?: string): Promise<Record<string, unknown>>;
  connect(person: Person, ...zones: readonly string[]): Promise<{ id: string; token: string }>;
  /** The person's mappings by hostname. */
  mapping(person: Person, domain: string): Promise<Record<string, unknown> | undefined>;
  /** Ends the API and starts it again on the same database. */
  restart(): Promise<void>;
}

export interface WorldOptions {
  /** Without an encryption key. */
  readonly isBare?: boolean;
  readonly resolvers?: (dns: string) => string;
  readonly adapter?: 'own' | 'uws' | 'node';
}

export async function openWorld(t: Cleanup, options: WorldOptions = {}): Promise<World> {
  const database = await testDatabase();
  const { db } = database;
  const [provider, dns, movable, log] = [
    await standIn(t),
    await dnsServer(t, 'example.org'),
    movableClock(),
    keptLog(),
  ];
  const directory = tokenDirectory(db);
  const { authenticate, forget } = authenticator({ secret: SECRET, clock, directory });
  const streams = new OpenStreams(directory, silentLog);
  const tokenNews = directory.onNews(forget);
  const news: NetworkNews[] = [];
  const heard = networkNews(db).onNews((item) => void news.push(item));
  const environment = readEnvironment({
    INGRESS_HOST: INGRESS,
    REGISTRY_HOST: 'registry.test:5000',
    DNS_RESOLVERS: options.resolvers?.(dns.address) ?? dns.address,
    DNS_PROVIDER_URL: provider.url,
    HTTP_ADAPTER: options.adapter ?? 'auto',
  });
  const open = async () => {
    const system = start({ log });
    const api = await openNetworkApi({
      ...{ system, db, log, clock: movable, environment, domain: DOMAIN, port: 0, installation: 'abcdefghijkl' },
      ...{ encryptionKey: options.isBare ? undefined : KEY, authenticate, streams, lookMs: 50 },
      pages: (service) => servicePages(service, new Registry()),
      onReply: () => {},
    });
    return { url: `http://127.0.0.1:${api.server.port}`, system, server: api.server };
  };
  let running = await open();
  const end = async () => {
    await running.server.close(500);
    stop(running.system);
    await stopped(running.system);
  };
  t.after(async () => {
    await end();
    await heard.close();
    await tokenNews.close();
    streams.close();
    await database.close();
  });
  let count = 0;

  const world: World = {
    get url() {
      return running.url;
    },
    ...{ db, clock: movable, log, provider, dns, news },
    async person() {
      const id = newId();
      const username = `user${++count}`;
      assert.ok(await insertUser(db, { id, username, passwordHash: 'none' }));
      const { token } = await sessionTokens(SECRET, 3600, clock)({ id, username, isAdmin: false });
      return { id, token };
    },
    async apiToken(person, scopes) {
      const tokenId = newId();
      const token = {
        id: tokenId,
        userId: person.id,
        name: 'test',
        grants: { scopes },
        expiresAt: undefined,
        max: 1000,
      };
      assert.ok(await insertApiToken(db, token));
      return apiTokens(SECRET, clock)({ tokenId, userId: person.id, expiresAt: undefined });
    },
    async container(person) {
      const row = await db.tx((tx) =>
        insertContainer(tx, {
          ...{ id: newId(), userId: person.id, name: 'web', instanceType: 'nano', memoryMb: 128, storageGb: 1 },
          ...{ image: null, pullPolicy: 'IfNotPresent', mountPaths: ['/root'], sshEnabled: false },
        }),
      );
      assert.ok(row);
      return row.id;
    },
    async call(token, method, path, body, headers = {}) {
      const response = await fetch(world.url + path, {
        method,
        headers: { ...(token === '' ? {} : { authorization: `Bearer ${token}` }), ...headers },
        ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
      });
      const text = await response.text();
      const json: unknown = text.startsWith('{') ? JSON.parse(text) : {};
      return {
        status: response.status,
        headers: response.headers,
        text,
        json: z.record(z.string(), z.unknown()).parse(json),
      };
    },
    async map(person, domain, containerId) {
      const container = containerId ?? (await world.container(person));
      const body = { container_id: container, domain, target_port: 443 };
      const reply = await world.call(person.token, 'POST', '/api/domain-mappings', body);
      assert.equal(reply.status, 201, reply.text);
      return reply.json;
    },
    async connect(person, ...zones) {
      const token = `provider-token-${++count}`;
      provider.zones.set(
        token,
        zones.map((name) => ({ id: `zone-${name}`, name, status: 'active' })),
      );
      const reply = await world.call(person.token, 'POST', '/api/domains', { token });
      assert.equal(reply.status, 201, reply.text);
      return { id: String(reply.json.id), token };
    },
    async mapping(person, domain) {
      const { json } = await world.call(person.token, 'GET', '/api/domain-mappings');
      return z
        .array(z.record(z.string(), z.unknown()))
        .parse(json.domains)
        .find((item) => item.domain === domain);
    },
    async restart() {
      await end();
      running = await open();
    },
  };
  return world;
}
