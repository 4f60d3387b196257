/** The page where a person approves the login of a program, as the gateway serves it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Routing } from '../../actors/gateway/routing.ts';
import { RouteTable } from '../../proto/gateway/routes.ts';
import type { ProxyReply, ProxyRequest } from '../../proto/gateway/traffic.ts';

const PORTS = { http: 18_080, https: 8443, ssh: 2022 };
const DOMAIN = 'cloud.test';
const DOMAINS = { domain: DOMAIN, containersDomain: `compute.${DOMAIN}` };
const COMMON = { host: DOMAIN, target: '10.0.0.1:7001', strip_prefix: false, priority: 0 };

const request = (target: string, more: Partial<ProxyRequest> = {}): ProxyRequest => ({
  ...{ method: 'GET', host: DOMAIN, hostPort: 8443, target, hasBody: false, field: () => undefined },
  ...{ address: '192.0.2.1', port: PORTS.https, isEncrypted: true, ...more },
});

function open(prefixes: readonly string[]): Routing {
  const routing = new Routing({ ...DOMAINS, ports: PORTS, fallback: undefined, gatewayToken: () => '' });
  const routes = prefixes.map((path_prefix, at) => ({ ...COMMON, id: at + 1, path_prefix }));
  routing.swap({ routes: new RouteTable(routes), containers: new Map() });
  return routing;
}

function replyOf(routing: Routing, asked: ProxyRequest): ProxyReply {
  const decision = routing.decide(asked);
  assert.ok('reply' in decision, asked.target);
  return decision.reply;
}

test('the page and its two files are served with a policy that admits nothing else', () => {
  const routing = open(['/api/device']);
  const types = { '/device': 'text/html', '/device.js': 'text/javascript', '/device.css': 'text/css' };
  for (const [path, type] of Object.entries(types))
    for (const asked of [request(path), request(`${path}?x`), request(path, { method: 'HEAD' })]) {
      const { status, contentType, headers = [] } = replyOf(routing, asked);
      assert.deepEqual([status, contentType], [200, `${type}; charset=utf-8`]);
      const policy = new Map(headers).get('Content-Security-Policy') ?? '';
      for (const rule of ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "base-uri 'none'"])
        assert.ok(policy.split('; ').includes(rule), rule);
      assert.doesNotMatch(policy, /unsafe|\*|https?:/);
    }
  const page = replyOf(routing, request('/device')).body ?? '';
  assert.doesNotMatch(page, /<script(?! src="\/device\.js" defer><\/script>)|<style|\son\w+=|\sstyle=/i);
});

test('it is at the domain alone, by HTTPS, for reading, and after the routes', () => {
  const routing = open(['/api/device']);
  for (const asked of [
    request('/device', { method: 'POST' }),
    request('/device', { host: `auth.${DOMAIN}` }),
    request('/device', { host: `abcdefghijkl.compute.${DOMAIN}` }),
    request('/device/'),
    request('/Device'),
    request('/device.json'),
  ])
    assert.equal(replyOf(routing, asked).status, 404, `${asked.method} ${asked.host}${asked.target}`);
  const plain = { isEncrypted: false, port: PORTS.http, hostPort: PORTS.http };
  assert.equal(replyOf(routing, request('/device', plain)).status, 308);
  assert.ok('forward' in routing.decide(request('/api/device')));
  assert.ok('forward' in open(['/']).decide(request('/device')), 'a route of an operator comes first');
});
