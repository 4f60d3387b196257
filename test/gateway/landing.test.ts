/** The page at the platform's own host. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { type TestContext, test } from 'node:test';

import { landingPage } from '../../actors/gateway/landing.ts';
import { Routing } from '../../actors/gateway/routing.ts';
import { RouteTable } from '../../proto/gateway/routes.ts';
import type { ProxyReply, ProxyRequest } from '../../proto/gateway/traffic.ts';
import { launchChromium } from '../support/clients/chromium.ts';
import { openProxy } from '../support/gateway/proxy.ts';

const PORTS = { http: 18_080, https: 8443, ssh: 2022 };
const DOMAIN = 'cloud.test';
const DOMAINS = { domain: DOMAIN, containersDomain: `compute.${DOMAIN}` };

const request = (target: string, more: Partial<ProxyRequest> = {}): ProxyRequest => ({
  ...{ method: 'GET', host: DOMAIN, hostPort: 8443, target, hasBody: false, field: () => undefined },
  ...{ address: '192.0.2.1', port: PORTS.https, isEncrypted: true, ...more },
});

function open(options: { fallback?: { host: string; port: number }; hosts?: readonly string[]; root?: boolean } = {}) {
  const routing = new Routing({ ...DOMAINS, ports: PORTS, fallback: options.fallback, gatewayToken: () => '' });
  const common = { target: '10.0.0.1:7001', strip_prefix: false, priority: 0 };
  const hosts = options.hosts ?? ['auth', 'compute', 'net', 'monitor', 'notify'];
  const routes = [
    { id: 1, host: DOMAIN, path_prefix: '/api/login', ...common },
    ...hosts.map((name, n) => ({ id: n + 2, host: `${name}.${DOMAIN}`, path_prefix: '/', ...common })),
    ...(options.root ? [{ id: 99, host: DOMAIN, path_prefix: '/', ...common }] : []),
  ];
  routing.swap({ routes: new RouteTable(routes), containers: new Map() });
  return routing;
}

function pageOf(decision: ReturnType<Routing['decide']>): ProxyReply {
  assert.ok('reply' in decision);
  assert.equal(decision.reply.contentType, 'text/html; charset=utf-8');
  return decision.reply;
}

test('the domain itself answers with the page, and nothing else does', () => {
  const routing = open();
  for (const [target, method] of [
    ['/', 'GET'],
    ['/', 'HEAD'],
    ['/?utm=1', 'GET'],
  ] as const)
    assert.equal(pageOf(routing.decide(request(target, { method }))).status, 200);
  for (const other of [
    request('/x'),
    request('/index.html'),
    request('/', { method: 'POST' }),
    request('/', { host: 'other.test' }),
  ]) {
    const decision = routing.decide(other);
    assert.ok('reply' in decision && decision.reply.status === 404, other.target);
  }
  const plain = routing.decide(request('/', { isEncrypted: false, port: PORTS.http, hostPort: PORTS.http }));
  assert.ok('reply' in plain && plain.reply.status === 308);
  const fallback = { host: '10.0.0.9', port: 80 };
  assert.deepEqual(open({ fallback }).decide(request('/')), { forward: fallback, target: '/' });
  assert.ok('forward' in open({ root: true }).decide(request('/')), 'a route of the operator wins');
});

test('the page names the services there are by the port that was asked, and how to log in', () => {
  const { body = '' } = pageOf(open({ hosts: ['auth', 'compute'] }).decide(request('/')));
  for (const link of ['auth', 'compute'].flatMap((name) => ['openapi.json', 'healthz'].map((page) => [name, page])))
    assert.ok(body.includes(`href="https://${link[0]}.cloud.test:8443/${link[1]}"`));
  assert.ok(!body.includes('notify.'));
  assert.ok(body.includes('curl -s https://auth.cloud.test:8443/api/login'));
  assert.ok(body.includes('ssh -p 2022 CONTAINER_ID@compute.cloud.test'));
  assert.ok(pageOf(open().decide(request('/', { hostPort: undefined }))).body?.includes('https://auth.cloud.test/api'));
});

test('the page runs and loads nothing', () => {
  const { body = '', headers = [] } = pageOf(open().decide(request('/')));
  assert.doesNotMatch(body, /<script|\son[a-z]+=|style=|javascript:|url\(|@import/i);
  const policy = new Map(headers).get('Content-Security-Policy') ?? '';
  const style = /<style>([\s\S]*)<\/style>/.exec(body)?.[1] ?? '';
  const hash = createHash('sha256').update(style).digest('base64');
  assert.equal(
    policy,
    `default-src 'none'; style-src 'sha256-${hash}'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`,
  );
  assert.equal(new Map(headers).get('X-Content-Type-Options'), 'nosniff');
  const odd = landingPage({ domain: '<b>"&', port: '', sshPort: 1, has: () => true }).body ?? '';
  assert.ok(!odd.includes('<b>'));
});

test('a browser shows it as it is meant, on a phone and a large screen, light and dark, without a complaint', async (t: TestContext) => {
  const page = landingPage({ domain: 'cloud.example.org', port: ':8443', sshPort: 2222, has: () => true });
  const proxy = await openProxy(t, () => ({ reply: page }));
  const browser = await launchChromium(t);
  const backgrounds = new Set<string>();
  for (const colorScheme of ['light', 'dark'] as const) {
    for (const width of [360, 1280]) {
      const view = await browser.newPage({ viewport: { width, height: 900 }, colorScheme });
      const complaints: string[] = [];
      view.on('console', (message) => complaints.push(message.text()));
      const reply = await view.goto(`http://127.0.0.1:${proxy.port}/`);
      assert.equal(reply?.headers()['content-type'], 'text/html; charset=utf-8');
      const seen = await view.evaluate(
        '({ wide: document.documentElement.scrollWidth, back: getComputedStyle(document.body).backgroundColor })',
      );
      assert.ok(typeof seen === 'object' && seen !== null && 'wide' in seen && 'back' in seen);
      assert.equal(seen.wide, width, 'nothing sticks out');
      backgrounds.add(String(seen.back));
      assert.deepEqual(complaints, []);
      await view.close();
    }
  }
  assert.equal(backgrounds.size, 2, 'each colour scheme has its own');
});
