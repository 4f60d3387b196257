/** The console's files, as the gateway serves them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import { Routing } from '../../actors/gateway/routing.ts';
import { readConsole } from '../../cmd/node/console-files.ts';
import type { ConsoleFile, ConsoleFiles } from '../../proto/gateway/console-files.ts';
import { RouteTable } from '../../proto/gateway/routes.ts';
import type { ProxyReply, ProxyRequest } from '../../proto/gateway/traffic.ts';
import { openProxy } from '../support/gateway/proxy.ts';
import { buildOfConsole } from '../support/web/console-build.ts';

const PORTS = { http: 18_080, https: 8443, ssh: 2022 };
const DOMAIN = 'troupe.localhost';
const DOMAINS = { domain: DOMAIN, containersDomain: `compute.${DOMAIN}` };

const file = (text: string, more: Partial<ConsoleFile> = {}): ConsoleFile => ({
  ...{ type: 'text/html; charset=utf-8', bytes: Buffer.from(text), tag: 'abc', isForever: false, ...more },
});
const FILES: ConsoleFiles = new Map([
  ['/index.html', file('<!doctype html>', { gzip: Buffer.from('zipped'), brotli: Buffer.from('smaller') })],
  ['/assets/a-1.js', file('let a;', { type: 'text/javascript; charset=utf-8', tag: 'js', isForever: true })],
]);

const request = (
  target: string,
  fields: Record<string, string> = {},
  more: Partial<ProxyRequest> = {},
): ProxyRequest => ({
  ...{ method: 'GET', host: DOMAIN, hostPort: 8443, target, hasBody: false, field: (name) => fields[name] },
  ...{ address: '192.0.2.1', port: PORTS.https, isEncrypted: true, ...more },
});

function open(options: { fallback?: { host: string; port: number }; prefixes?: readonly string[] } = {}): Routing {
  const { fallback, prefixes = ['/api/login'] } = options;
  const routing = new Routing({ ...DOMAINS, ports: PORTS, fallback, gatewayToken: () => '', console: FILES });
  const common = { host: DOMAIN, target: '10.0.0.1:7001', strip_prefix: false, priority: 0 };
  const routes = prefixes.map((path_prefix, id) => ({ ...common, id: id + 1, path_prefix }));
  routing.swap({ routes: new RouteTable(routes), containers: new Map() });
  return routing;
}

function replyOf(asked: ProxyRequest, routing = open()): ProxyReply {
  const decision = routing.decide(asked);
  assert.ok('reply' in decision, asked.target);
  return decision.reply;
}

const header = ({ headers = [] }: ProxyReply, name: string) => new Map(headers).get(name);
const HTML = { accept: 'text/html,application/xhtml+xml' };

test('every answer has the policy of the console', () => {
  for (const target of ['/', '/containers/abc', '/assets/a-1.js']) {
    const reply = replyOf(request(target, HTML));
    assert.equal(
      header(reply, 'Content-Security-Policy'),
      "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; img-src 'self' data:; connect-src 'self'; " +
        "worker-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
        "require-trusted-types-for 'script'; trusted-types troupe",
    );
    assert.equal(header(reply, 'Cross-Origin-Opener-Policy'), 'same-origin');
    assert.equal(header(reply, 'Cross-Origin-Resource-Policy'), 'same-origin');
    assert.equal(header(reply, 'Referrer-Policy'), 'no-referrer');
    assert.equal(header(reply, 'X-Content-Type-Options'), 'nosniff');
    assert.match(header(reply, 'Permissions-Policy') ?? '', /publickey-credentials-get=\(self\).*geolocation=\(\)/);
  }
});

test('browsers get the page at every address that no route takes; other programs get 404', () => {
  for (const target of ['/', '/index.html', '/containers', '/containers/abc?show=log', '/device', '/nowhere/at/all'])
    assert.equal(replyOf(request(target, HTML)).status, 200, target);
  assert.equal(replyOf(request('/')).status, 200, 'the front page needs no Accept');
  for (const asked of [
    request('/containers', { accept: '*/*' }),
    request('/containers'),
    request('/assets/gone-2.js', HTML),
    request('/containers', HTML, { method: 'POST' }),
    request('/', HTML, { host: 'other.test' }),
    request('/', HTML, { host: `auth.${DOMAIN}` }),
  ])
    assert.equal(replyOf(asked).status, 404, `${asked.method} ${asked.host}${asked.target}`);
});

test('routes come first, and the console before the fallback', () => {
  assert.ok('forward' in open({ prefixes: ['/'] }).decide(request('/', HTML)));
  assert.ok('forward' in open().decide(request('/api/login', HTML)));
  const fallback = { host: '10.0.0.9', port: 80 };
  assert.equal(replyOf(request('/', HTML), open({ fallback })).status, 200);
  assert.deepEqual(open({ fallback }).decide(request('/x', HTML, { host: 'other.test' })), {
    forward: fallback,
    target: '/x',
  });
});

test('files with a hash in their names are kept for ever, the page is asked for again', () => {
  assert.equal(header(replyOf(request('/assets/a-1.js')), 'Cache-Control'), 'public, max-age=31536000, immutable');
  assert.equal(header(replyOf(request('/')), 'Cache-Control'), 'no-cache');
});

test('the smallest form that the client takes is sent, each with a validator of its own', () => {
  const forms = [
    ['gzip, deflate, br', 'smaller', 'br', '"abc-br"'],
    ['gzip, br;q=0', 'zipped', 'gzip', '"abc-gzip"'],
    ['GZIP;q=0.5', 'zipped', 'gzip', '"abc-gzip"'],
    ['', '<!doctype html>', undefined, '"abc"'],
    ['identity', '<!doctype html>', undefined, '"abc"'],
    ['br;q=0.0, gzip;q=0', '<!doctype html>', undefined, '"abc"'],
  ] as const;
  for (const [accepted, bytes, encoding, etag] of forms) {
    const reply = replyOf(request('/', { 'accept-encoding': accepted }));
    assert.deepEqual(
      [reply.bytes?.toString(), header(reply, 'Content-Encoding'), header(reply, 'ETag'), header(reply, 'Vary')],
      [bytes, encoding, etag, 'Accept-Encoding'],
      accepted,
    );
  }
});

test('who has it already is told so', () => {
  for (const known of ['"abc"', 'W/"abc"', '"x", "abc"', '*'])
    assert.equal(replyOf(request('/', { 'if-none-match': known })).status, 304, known);
  for (const other of ['"abc-br"', 'abc', '""'])
    assert.equal(replyOf(request('/', { 'if-none-match': other })).status, 200);
  assert.equal(replyOf(request('/', { 'if-none-match': '"abc"', 'accept-encoding': 'br' })).status, 200);
});

test('a browser on this machine may use plain HTTP, and nobody else', () => {
  const plain = { isEncrypted: false, port: PORTS.http, hostPort: PORTS.http, address: '127.0.0.1' };
  const browser = { ...HTML, 'sec-fetch-site': 'none' };
  assert.equal(replyOf(request('/', browser, plain)).status, 200);
  assert.ok('forward' in open().decide(request('/api/login', { 'sec-fetch-site': 'same-origin' }, plain)));
  assert.ok('forward' in open().decide(request('/api/login', { origin: `http://${DOMAIN}:18080` }, plain)));
  for (const [fields, more] of [
    [HTML, {}],
    [browser, { address: '192.0.2.1' }],
    [{ ...browser, 'x-forwarded-for': '192.0.2.1' }, {}],
    [{ ...browser, via: '1.1 proxy' }, {}],
  ] as const)
    assert.equal(replyOf(request('/api/login', fields, { ...plain, ...more })).status, 308);
  const elsewhere = new Routing({
    ...{ domain: 'cloud.test', containersDomain: 'compute.cloud.test' },
    ports: PORTS,
    fallback: undefined,
    gatewayToken: () => '',
    console: FILES,
  });
  elsewhere.swap({
    routes: new RouteTable([
      { id: 1, host: 'cloud.test', path_prefix: '/api', target: '10.0.0.1:1', strip_prefix: false, priority: 0 },
    ]),
    containers: new Map(),
  });
  assert.equal(replyOf(request('/api/login', browser, { ...plain, host: 'cloud.test' }), elsewhere).status, 308);
});

test('a client gets the bytes, a HEAD their length, and a 304 nothing', async (t) => {
  const large = Buffer.alloc(300_000, 'x');
  const files = new Map([['/assets/large-1.js', file('', { bytes: large, isForever: true })]]);
  const routing = new Routing({
    ...{ domain: 'localhost', containersDomain: 'compute.localhost' },
    ports: PORTS,
    fallback: undefined,
    gatewayToken: () => '',
    console: files,
  });
  routing.swap({ routes: new RouteTable([]), containers: new Map() });
  const { port, log } = await openProxy(t, (asked) =>
    routing.decide({ ...fieldsOf(asked), host: 'localhost', isEncrypted: true }),
  );
  const ask = (method: string, headers: Record<string, string> = {}) =>
    fetch(`http://127.0.0.1:${port}/assets/large-1.js`, {
      method,
      headers: { 'accept-encoding': 'identity', ...headers },
    });
  const whole = await ask('GET');
  assert.deepEqual([whole.status, Buffer.from(await whole.arrayBuffer()).equals(large)], [200, true]);
  const head = await ask('HEAD');
  assert.deepEqual([head.headers.get('content-length'), await head.text()], ['300000', '']);
  const known = await ask('GET', { 'if-none-match': whole.headers.get('etag') ?? '' });
  assert.deepEqual([known.status, known.headers.get('content-length'), await known.text()], [304, null, '']);
  assert.deepEqual(
    log.map(({ status, bytes }) => [status, bytes]),
    [
      [200, 300_000],
      [200, 0],
      [304, 0],
    ],
  );
});

test('what was built is served whole, compressed as it was built', { skip: buildOfConsole.skip }, () => {
  const files = readConsole(buildOfConsole.folder);
  assert.ok(files !== undefined);
  assert.ok(files.get('/index.html')?.bytes.toString().includes('<div id="app">'));
  let compressed = 0;
  for (const [path, { bytes, gzip, brotli, isForever }] of files) {
    assert.equal(isForever, path.startsWith('/assets/'), path);
    if (gzip === undefined || brotli === undefined) continue;
    compressed++;
    assert.ok(gunzipSync(gzip).equals(bytes), path);
    assert.ok(brotliDecompressSync(brotli).equals(bytes), path);
  }
  assert.ok(compressed > 10);
});

test('without a build there is no console', () => {
  assert.equal(readConsole('/nonexistent'), undefined);
});

/** A request as a plain object. */
function fieldsOf(asked: ProxyRequest): ProxyRequest {
  const { method, host, hostPort, target, hasBody, address, port, isEncrypted } = asked;
  return { method, host, hostPort, target, hasBody, address, port, isEncrypted, field: (name) => asked.field(name) };
}
