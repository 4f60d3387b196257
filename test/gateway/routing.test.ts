import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { ContainerTarget } from '../../actors/gateway/deps.ts';
import { Routing } from '../../actors/gateway/routing.ts';
import { RouteTable, type StaticRoute } from '../../proto/gateway/routes.ts';
import type { ProxyRequest } from '../../proto/gateway/traffic.ts';

const ID = 'abcdefghijk1';
const HOST = `${ID}.compute.cloud.test`;
const PORTS = { http: 18_080, https: 8443, ssh: 2022 };

const request = (host: string, target: string, more: Partial<ProxyRequest> = {}): ProxyRequest => ({
  ...{ method: 'GET', host, hostPort: undefined, target, hasBody: false, field: () => undefined },
  ...{ address: '192.0.2.1', port: PORTS.http, isEncrypted: false, ...more },
});
const encrypted = { port: PORTS.https, isEncrypted: true };

function open(
  options: { fallback?: { host: string; port: number }; routes?: StaticRoute[]; container?: ContainerTarget } = {},
) {
  const routing = new Routing({
    domain: 'cloud.test',
    containersDomain: 'compute.cloud.test',
    ports: PORTS,
    fallback: options.fallback,
    gatewayToken: () => '',
  });
  const routes = options.routes ?? [
    { id: 1, host: 'auth.cloud.test', path_prefix: '/', target: 'auth:7001', strip_prefix: false, priority: 0 },
    { id: 2, host: 'cloud.test', path_prefix: '/compute', target: '10.0.0.1:7002', strip_prefix: true, priority: 0 },
  ];
  const container = options.container ?? {
    address: '172.18.0.2',
    ports: new Map([
      [80, 8080],
      [443, 8443],
      [8000, 22],
    ]),
  };
  routing.swap({ routes: new RouteTable(routes), containers: new Map([[ID, container]]) });
  return routing;
}

describe('a request', () => {
  test('to a mapped host is asked by the rule of its port, or the strictest that leads to the same port inside', () => {
    const guard = (port: number, rule: number, hash: string | null) => ({ containerId: ID, port, rule, hash });
    const routing = open();
    const table = new RouteTable([]);
    const swap = (
      ports: readonly (readonly [number, number])[],
      guards: ReturnType<typeof guard>[],
      targetPort: number,
    ) =>
      routing.swap({
        routes: table,
        containers: new Map([
          [ID, { address: '172.18.0.2', ports: new Map(ports), guards: new Map(guards.map((one) => [one.port, one])) }],
        ]),
        mapped: new Map([['www.example.org', { containerId: ID, targetPort }]]),
      });
    const ruleAsked = (admitted?: number) => {
      const decision = routing.decide(request('www.example.org', '/', encrypted), admitted);
      if ('forward' in decision) return decision.forward.port;
      return 'guard' in decision ? `rule ${decision.guard.rule}` : decision;
    };
    const entrance = { host: 'www.example.org', port: PORTS.https, isEncrypted: true, containerId: ID };
    const [password, owner] = [guard(443, 1, 'a hash'), guard(8444, 2, null)];
    swap([[443, 8080]], [password], 8080);
    assert.deepEqual([ruleAsked(), ruleAsked(1), ruleAsked(2)], ['rule 1', 8080, 'rule 1']);
    assert.equal(routing.admits({ ...entrance, rule: 1 }), true);
    assert.equal(routing.admits({ ...entrance, rule: undefined }), false);
    const both = [
      [443, 8080],
      [8444, 8080],
    ] as const;
    swap(both, [password, owner], 8080);
    assert.equal(ruleAsked(1), 'rule 2');
    swap(both, [password, owner], 443);
    assert.equal(ruleAsked(2), 'rule 1');
    // What leads elsewhere does not count, and the owner may open the port itself to everybody.
    swap([[443, 8081]], [password], 8080);
    assert.equal(ruleAsked(), 8080);
    swap([...both, [8080, 8080]], [password, owner], 8080);
    assert.equal(ruleAsked(), 8080);
    assert.equal(routing.admits({ ...entrance, rule: undefined }), true);
  });

  test('for a token at the host of the platform’s registry goes to the authentication service', () => {
    const common = { strip_prefix: false, priority: 0 };
    const registry = { ...common, host: 'registry.cloud.test', path_prefix: '/', target: '127.0.0.1:7006' };
    const auth = { ...common, host: 'cloud.test', path_prefix: '/v2/token', target: '127.0.0.1:7001', managed: true };
    const ask = (managed: boolean, target: string, more: Partial<ProxyRequest> = encrypted) =>
      open({ routes: [{ ...registry, managed }, auth] }).decide(request('registry.cloud.test', target, more));
    const token = ask(true, '/auth/token?service=a&scope=b');
    assert.ok('forward' in token && token.gatewayToken !== undefined);
    assert.deepEqual([token.forward.port, token.target], [7001, '/v2/token?service=a&scope=b']);
    const other = ask(true, '/auth/token2');
    assert.ok('forward' in other && other.gatewayToken === undefined);
    assert.deepEqual([other.forward.port, other.target], [7006, '/auth/token2']);
    const operators = ask(false, '/auth/token');
    assert.ok('forward' in operators && operators.gatewayToken === undefined);
    assert.equal(operators.forward.port, 7006);
    const plain = ask(true, '/auth/token', {});
    assert.ok('reply' in plain && plain.reply.status === 308);
  });

  test('to a core service goes to its route, over HTTPS only', () => {
    const routing = open();
    assert.deepEqual(routing.decide(request('auth.cloud.test', '/x?y', encrypted)), {
      forward: { host: 'auth', port: 7001 },
      target: '/x?y',
    });
    assert.deepEqual(routing.decide(request('cloud.test', '/compute/ws', encrypted)), {
      forward: { host: '10.0.0.1', port: 7002 },
      target: '/ws',
    });
    const location = (more: Partial<ProxyRequest> = {}) => {
      const decision = routing.decide(request('auth.cloud.test', '/x?y', more));
      assert.ok('reply' in decision && decision.reply.status === 308);
      return decision.reply.headers?.[0]?.[1];
    };
    assert.equal(location(), 'https://auth.cloud.test/x?y');
    assert.equal(location({ hostPort: 80 }), 'https://auth.cloud.test/x?y');
    assert.equal(location({ hostPort: PORTS.http }), 'https://auth.cloud.test:8443/x?y');
  });

  test('to a container goes to the port that its rule says', () => {
    const routing = open();
    const to = (port: number) => ({
      forward: { host: '172.18.0.2', port },
      target: '/',
      tenantOf: ['cloud.test', 'compute.cloud.test'],
      containerId: ID,
    });
    assert.deepEqual(routing.decide(request(HOST, '/')), to(8080));
    assert.deepEqual(routing.decide(request(HOST, '/', { port: 8000 })), to(22));
    for (const port of [8001, 22]) assert.deepEqual(routing.decide(request(HOST, '/', { port })), NOTHING);
    for (const host of [
      `x${HOST}`,
      `abcdefghijk2.compute.cloud.test`,
      `${ID.toUpperCase()}.compute.cloud.test`,
      `a.${HOST}`,
      'compute.cloud.test',
      `${ID}.compute.cloud.test.evil.test`,
      `${ID}.compute.evil.test`,
    ])
      assert.deepEqual(routing.decide(request(host, '/')), NOTHING, host);
  });

  test('to a container that leaves TLS to the gateway goes there over HTTPS', () => {
    const ports = new Map([
      [443, 3000],
      [8000, 3001],
      [8001, 22],
    ]);
    const routing = open({ container: { address: '172.18.0.2', ports, endsTls: new Set([443, 8000]) } });
    const to = (port: number) => ({
      forward: { host: '172.18.0.2', port },
      target: '/x',
      tenantOf: ['cloud.test', 'compute.cloud.test'],
      containerId: ID,
    });
    assert.equal(routing.decideName(HOST, PORTS.https), 'platform');
    assert.equal(routing.decideName(HOST, 8000), 'platform');
    assert.deepEqual(routing.decideName(HOST, 8001), { passTo: { host: '172.18.0.2', port: 22 }, containerId: ID });
    assert.deepEqual(routing.decide(request(HOST, '/x', encrypted)), to(3000));
    assert.deepEqual(routing.decide(request(HOST, '/x', { port: 8000, isEncrypted: true })), to(3001));
    assert.deepEqual(routing.decide(request(HOST, '/x', { port: 8001 })), to(22));
    const location = (port: number, hostPort?: number) => {
      const decision = routing.decide(request(HOST, '/x?y', { port, hostPort }));
      return 'reply' in decision ? [decision.reply.status, decision.reply.headers?.[0]?.[1]] : undefined;
    };
    assert.deepEqual(location(PORTS.http), [308, `https://${HOST}/x?y`]);
    assert.deepEqual(location(PORTS.http, PORTS.http), [308, `https://${HOST}:8443/x?y`]);
    assert.deepEqual(location(8000, 8000), [308, `https://${HOST}:8000/x?y`]);
    // A proxy in front has ended TLS, and comes to the port for plain HTTP.
    assert.deepEqual(routing.decide(request(HOST, '/x', { isEncrypted: true })), to(3000));
    // A rule for plain HTTP is one that was asked for.
    const both = new Map([...ports, [80, 8080] as const]);
    const plain = open({ container: { address: '172.18.0.2', ports: both, endsTls: new Set([443]) } });
    assert.deepEqual(plain.decide(request(HOST, '/x')), to(8080));
    assert.deepEqual(plain.decide(request(HOST, '/x', { isEncrypted: true })), to(3000));
    const passing = open({ container: { address: '172.18.0.2', ports: both } });
    assert.deepEqual(passing.decide(request(HOST, '/x', { isEncrypted: true })), to(8080));
    // One that does not run has a name all the same: the answer is a page.
    const stopped = open({ container: { address: undefined, ports, endsTls: new Set([443]) } });
    assert.equal(stopped.decideName(HOST, PORTS.https), 'platform');
    const answer = stopped.decide(request(HOST, '/', encrypted));
    assert.ok('reply' in answer && answer.reply.status === 503);
  });

  test('to a container that does not run says so, without telling which ones there are', () => {
    const routing = open({ container: { address: undefined, ports: new Map([[80, 80]]) } });
    const stopped = routing.decide(request(HOST, '/'));
    assert.ok('reply' in stopped && stopped.reply.status === 503);
    assert.deepEqual(routing.decide(request(HOST, '/', { port: 8000 })), NOTHING);
  });

  test('that nothing takes gets the fallback, or 404', () => {
    const fallback = { host: '10.9.9.9', port: 80 };
    assert.deepEqual(open().decide(request('other.test', '/')), NOTHING);
    assert.deepEqual(open().decide(request('cloud.test', '/other', encrypted)), NOTHING);
    assert.deepEqual(open({ fallback }).decide(request('other.test', '/p')), { forward: fallback, target: '/p' });
    assert.deepEqual(open({ fallback }).decide(request('cloud.test', '/other', encrypted)), {
      forward: fallback,
      target: '/other',
    });
  });

  test('is signed where a service of the platform answers, and nowhere else', () => {
    const at = { target: '10.0.0.1:1', strip_prefix: false, priority: 0 };
    const signed = (route: StaticRoute, host: string, target: string) => {
      const decision = open({ routes: [route] }).decide(request(host, target, encrypted));
      assert.ok('forward' in decision, `${host}${target}`);
      return decision.gatewayToken !== undefined;
    };
    const whole = { ...at, host: 'auth.cloud.test', path_prefix: '/' };
    // The platform's own routes, and an operator's to a service that runs alone.
    assert.equal(signed({ ...whole, managed: true }, whole.host, '/anything'), true);
    for (const path of ['/api/login', '/api/login?x=/', '/api/settings/keys', '/compute/containers/x/logs'])
      assert.equal(signed(whole, whole.host, path), true, path);
    assert.equal(signed({ ...whole, host: 'cloud.test', path_prefix: '/compute' }, 'cloud.test', '/compute/ws'), true);
    // An operator's own backend beside them; one that is asked for another path than the client asked for; another host.
    for (const path of ['/', '/shop', '/api', '/apix/login', '/api/log', '/shop/api/login'])
      assert.equal(signed(whole, whole.host, path), false, path);
    const stripped = { ...whole, path_prefix: '/api', strip_prefix: true };
    assert.equal(signed(stripped, whole.host, '/api/login'), false);
    assert.equal(signed({ ...whole, host: 'shop.test' }, 'shop.test', '/api/login'), false);
  });

  test('is decided by the new table as soon as it is there, also where the old answer is remembered', () => {
    const routing = open();
    const before = routing.decide(request('auth.cloud.test', '/', encrypted));
    assert.deepEqual(routing.decide(request('auth.cloud.test', '/', encrypted)), before);
    const moved: StaticRoute = {
      id: 1,
      host: 'auth.cloud.test',
      path_prefix: '/',
      target: 'new:1',
      strip_prefix: false,
      priority: 0,
    };
    routing.swap({ routes: new RouteTable([moved]), containers: new Map() });
    assert.deepEqual(routing.decide(request('auth.cloud.test', '/', encrypted)), {
      forward: { host: 'new', port: 1 },
      target: '/',
    });
    for (let i = 0; i < 1000; i++) routing.decide(request('auth.cloud.test', `/${i}`, encrypted));
    assert.deepEqual(routing.decide(request('auth.cloud.test', '/0', encrypted)), {
      forward: { host: 'new', port: 1 },
      target: '/0',
    });
  });
});

const NOTHING = { reply: { status: 404, body: 'There is nothing at this address.\n' } };

describe('a TLS name', () => {
  test('of a core service ends here, of a container passes, any other is refused', () => {
    const routing = open();
    assert.equal(routing.decideName('auth.cloud.test', PORTS.https), 'platform');
    assert.deepEqual(routing.decideName(HOST, PORTS.https), {
      passTo: { host: '172.18.0.2', port: 8443 },
      containerId: ID,
    });
    assert.deepEqual(routing.decideName(HOST, 8000), { passTo: { host: '172.18.0.2', port: 22 }, containerId: ID });
    for (const name of [
      undefined,
      'other.test',
      'x.cloud.test',
      'abcdefghijk2.compute.cloud.test',
      'compute.cloud.test',
    ])
      assert.equal(routing.decideName(name, PORTS.https), 'refuse', name);
    assert.equal(routing.decideName(HOST, 8001), 'refuse');
  });

  test('of the platform without a route ends here when there is a fallback', () => {
    const routing = open({ fallback: { host: 'x', port: 1 } });
    assert.equal(routing.decideName('x.cloud.test', PORTS.https), 'platform');
    assert.equal(routing.decideName('other.test', PORTS.https), 'refuse');
  });
});
