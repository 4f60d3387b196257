/** The real networking API on a real database, with a stand-in for the provider and a real DNS server. */
import assert from 'node:assert/strict';
import { createSecretKey } from 'node:crypto';
import { z } from 'zod';
import { listenNetwork, openNetwork as openActors } from '../../../cmd/node/network.ts';
import { PlatformTools } from '../../../cmd/node/tools.ts';
import { servicePages } from '../../../cmd/observability/pages.ts';
import { newId } from '../../../proto/ids.ts';
import type { KeptAnswers } from '../../../proto/kept-answers.ts';
import type { NetworkNews } from '../../../proto/network/events.ts';
import type { Scopes } from '../../../proto/scopes.ts';
import { insertContainer } from '../../../storage/compute/containers.ts';
import { networkNews } from '../../../storage/network/news.ts';
import type { AdapterChoice } from '../../../transports/http/index.ts';
import { movableClock } from '../clock.ts';
import { testDatabase } from '../database/database.ts';
import { keptLog } from '../log.ts';
import { standIn } from '../network/dns-provider.ts';
import { dnsServer } from '../network/dns-server.ts';
import type { Cleanup } from '../temp.ts';
import { SHORT_LEASES, startNode } from './node.ts';
import { type Person, people } from './people.ts';

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

export type NetworkUnderTest = Awaited<ReturnType<typeof openNetwork>>;

export interface NetworkOptions {
  /** Without an encryption key. */
  readonly isBare?: boolean;
  readonly resolvers?: (dns: string) => string;
  readonly adapter?: AdapterChoice;
  /** Stands in for what keeps answers. */
  readonly kept?: (own: KeptAnswers) => KeptAnswers;
  /** A broker, as `host:port`: it is a node of a cluster then. */
  readonly nats?: string;
}

/** Calls the API at `url`. */
const callAt =
  (url: string) =>
  async (token: string, method: string, path: string, body?: unknown, headers = {}): Promise<Reply> => {
    const response = await fetch(url + path, {
      method,
      headers: { ...(token === '' ? {} : { authorization: `Bearer ${token}` }), ...headers },
      ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    });
    const text = await response.text();
    const json: unknown = text.startsWith('{') ? JSON.parse(text) : {};
    const { status, headers: given } = response;
    return { status, headers: given, text, json: z.record(z.string(), z.unknown()).parse(json) };
  };

type Call = ReturnType<typeof callAt>;

/** Opens it without anybody. */
export async function openNetwork(t: Cleanup, options: NetworkOptions = {}) {
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
    const member = options.nats === undefined ? {} : { nats: options.nats, roles: ['network'], timings: SHORT_LEASES };
    const node = await startNode(t, { database, clock, log, environment, ...member });
    const { system, domain } = node;
    const service = await openActors({
      ...{
        system,
        db: node.db,
        log,
        clock,
        domain,
        lookMs: 50,
        tools: new PlatformTools(domain, log),
        installation: 'abcdefghijkl',
      },
      environment: node.environment,
      placement: options.nats === undefined ? undefined : node.placement,
      encryptionKey: options.isBare ? undefined : KEY,
    });
    if (options.nats !== undefined) await node.join();
    const server = await listenNetwork(service, {
      ...{ log, domain, authenticate: node.authenticate, streams: node.streams, port: 0 },
      kept: options.kept?.(node.kept) ?? node.kept,
      environment: node.environment,
      pages: servicePages(service, node.metrics.registry),
      onReply: () => {},
    });
    node.before('listener', () => server.close(500));
    const url = `http://127.0.0.1:${server.port}`;
    return { node, url, call: callAt(url) };
  };
  let running = await open();
  t.after(async () => {
    await running.node.end();
    await heard.close();
    await database.close();
  });
  let count = 0;
  const call: Call = (...request) => running.call(...request);
  const post = async (person: Person, path: string, body: object) => {
    const reply = await call(person.token, 'POST', path, body);
    assert.equal(reply.status, 201, reply.text);
    return reply.json;
  };
  const container = async (person: Person) => {
    const row = await db.tx((tx) =>
      insertContainer(tx, {
        ...{ id: newId(), userId: person.id, name: 'web', instanceType: 'nano', memoryMb: 128, storageGb: 1 },
        ...{ image: null, pullPolicy: 'IfNotPresent', mountPaths: ['/root'], sshEnabled: false },
      }),
    );
    assert.ok(row);
    return row.id;
  };
  return {
    get url() {
      return running.url;
    },
    db,
    clock,
    log,
    provider,
    dns,
    news,
    person: () => people(running.node).person(`user${++count}`, YEAR_SECONDS),
    apiToken: async (person: Person, scopes: Scopes) => (await people(running.node).apiToken(person, { scopes })).token,
    container,
    call,
    /** The node that `call` asks. */
    get node() {
      return running.node;
    },
    /** Another node on the same database, with an API of its own; ended with the test. */
    another: async () => {
      const opened = await open();
      t.after(() => opened.node.end());
      return opened;
    },
    /** Creates a mapping and returns its view. */
    map: async (person: Person, domain: string, containerId?: string) =>
      post(person, '/api/domain-mappings', {
        container_id: containerId ?? (await container(person)),
        domain,
        target_port: 443,
      }),
    async connect(person: Person, ...zones: readonly string[]) {
      const token = `provider-token-${++count}`;
      provider.zones.set(
        token,
        zones.map((name) => ({ id: `zone-${name}`, name, status: 'active' })),
      );
      return { id: String((await post(person, '/api/domains', { token })).id), token };
    },
    /** The person's mapping of a hostname. */
    async mapping(person: Person, domain: string) {
      const { json } = await call(person.token, 'GET', '/api/domain-mappings');
      const mappings = z.array(z.record(z.string(), z.unknown())).parse(json.domains);
      return mappings.find((item) => item.domain === domain);
    },
    /** Ends the API and starts it again on the same database. */
    async restart() {
      await running.node.end();
      running = await open();
    },
  };
}
