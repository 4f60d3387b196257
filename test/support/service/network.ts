/** The real networking API on a real database, with a stand-in for the provider and a real DNS server. */
import assert from 'node:assert/strict';
import { createSecretKey } from 'node:crypto';
import { z } from 'zod';
import { openNetworkApi } from '../../../cmd/node/network.ts';
import { servicePages } from '../../../cmd/observability/pages.ts';
import { newId } from '../../../proto/ids.ts';
import type { NetworkNews } from '../../../proto/network/events.ts';
import type { Scopes } from '../../../proto/scopes.ts';
import { insertContainer } from '../../../storage/compute/containers.ts';
import type { Db } from '../../../storage/db.ts';
import { networkNews } from '../../../storage/network/news.ts';
import type { AdapterChoice } from '../../../transports/http/index.ts';
import { type MovableClock, movableClock } from '../clock.ts';
import { testDatabase } from '../database/database.ts';
import { type KeptLog, keptLog } from '../log.ts';
import { type StandIn, standIn } from '../network/dns-provider.ts';
import { type DnsServer, dnsServer } from '../network/dns-server.ts';
import type { Cleanup } from '../temp.ts';
import { startNode } from './node.ts';
import { addApiToken, addPerson, type Person } from './people.ts';

export const INGRESS = 'ingress.cloud.test';
const KEY = createSecretKey(Buffer.alloc(32, 7));
/** The clock is moved by weeks. */
const YEAR_SECONDS = 365 * 86_400;

export interface Reply {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  readonly json: Record<string, unknown>;
}

export interface NetworkUnderTest {
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

export interface NetworkOptions {
  /** Without an encryption key. */
  readonly isBare?: boolean;
  readonly resolvers?: (dns: string) => string;
  readonly adapter?: AdapterChoice;
}

/** Opens it without anybody. */
export async function openNetwork(t: Cleanup, options: NetworkOptions = {}): Promise<NetworkUnderTest> {
  const database = await testDatabase();
  const { db } = database;
  const [provider, dns] = [await standIn(t), await dnsServer(t, 'example.org')];
  const [clock, log] = [movableClock(), keptLog()];
  const news: NetworkNews[] = [];
  const heard = networkNews(db).onNews((item) => void news.push(item));
  const environment = {
    INGRESS_HOST: INGRESS,
    REGISTRY_HOST: 'registry.test:5000',
    DNS_RESOLVERS: options.resolvers?.(dns.address) ?? dns.address,
    DNS_PROVIDER_URL: provider.url,
    HTTP_ADAPTER: options.adapter ?? 'auto',
  };
  const open = async () => {
    const node = await startNode(t, { database, clock, log, environment });
    const { server } = await openNetworkApi({
      system: node.system,
      db,
      log,
      clock,
      environment: node.environment,
      domain: node.domain,
      port: 0,
      installation: 'abcdefghijkl',
      encryptionKey: options.isBare ? undefined : KEY,
      authenticate: node.authenticate,
      streams: node.streams,
      lookMs: 50,
      pages: (service) => servicePages(service, node.metrics.registry),
      onReply: () => {},
    });
    node.before('listener', () => server.close(500));
    return { node, url: `http://127.0.0.1:${server.port}` };
  };
  let running = await open();
  t.after(async () => {
    await running.node.end();
    await heard.close();
    await database.close();
  });
  let count = 0;

  const network: NetworkUnderTest = {
    get url() {
      return running.url;
    },
    db,
    clock,
    log,
    provider,
    dns,
    news,
    person: () => addPerson(running.node, `user${++count}`, YEAR_SECONDS),
    apiToken: async (person, scopes) => (await addApiToken(running.node, person, { scopes })).token,
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
      const response = await fetch(network.url + path, {
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
      const container = containerId ?? (await network.container(person));
      const body = { container_id: container, domain, target_port: 443 };
      const reply = await network.call(person.token, 'POST', '/api/domain-mappings', body);
      assert.equal(reply.status, 201, reply.text);
      return reply.json;
    },
    async connect(person, ...zones) {
      const token = `provider-token-${++count}`;
      provider.zones.set(
        token,
        zones.map((name) => ({ id: `zone-${name}`, name, status: 'active' })),
      );
      const reply = await network.call(person.token, 'POST', '/api/domains', { token });
      assert.equal(reply.status, 201, reply.text);
      return { id: String(reply.json.id), token };
    },
    async mapping(person, domain) {
      const { json } = await network.call(person.token, 'GET', '/api/domain-mappings');
      return z
        .array(z.record(z.string(), z.unknown()))
        .parse(json.domains)
        .find((item) => item.domain === domain);
    },
    async restart() {
      await running.node.end();
      running = await open();
    },
  };
  return network;
}
