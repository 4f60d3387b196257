/** Where the gateway has browsers use HTTPS only (Strict-Transport-Security), and where it says nothing of it. */
import assert from 'node:assert/strict';
import type { IncomingMessage } from 'node:http';
import { request } from 'node:http';
import { type TestContext, test } from 'node:test';
import { strictTransportOf } from '../../cmd/config/gateway-options.ts';
import { certificateContext } from '../../transports/gateway/tls/front.ts';
import { basic, hostOf, OWN, OWN_NAME, openGuarded } from '../support/gateway/guards.ts';
import { certificates } from '../support/gateway/listeners.ts';
import { httpOrigin } from '../support/gateway/proxy.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { until } from '../support/until.ts';

failOnLeaks();

const YEAR = 'max-age=31536000';
const PASSWORD = 'the visitors password';

/** A gateway whose routes and containers lead to a program that says what the request's path names, if anything. */
async function open(t: TestContext, authorityFile: string | null, options: Parameters<typeof openGuarded>[2] = {}) {
  const origin = await httpOrigin(t, ({ url = '' }, response) => {
    const said = /^\/says\/([0-9]+)/.exec(url)?.[1];
    response.writeHead(200, said === undefined ? {} : { 'strict-transport-security': `max-age=${said}` }).end('ok');
  });
  const { own } = await certificates();
  const common = { target: `127.0.0.1:${origin}`, strip_prefix: false, priority: 0 };
  const guarded = await openGuarded(t, origin, {
    certificate: { context: certificateContext(own), authorityFile },
    fileRoutes: [
      { ...common, id: 1, host: 'auth.cloud.test', path_prefix: '/', managed: true },
      { ...common, id: 2, host: 'cloud.test', path_prefix: '/api', managed: true },
      { ...common, id: 3, host: 'graphs.cloud.test', path_prefix: '/' },
    ],
    ...options,
  });
  await guarded.guard(OWN, { password: PASSWORD });
  const asks = async () => (await guarded.visit().catch(() => undefined))?.status === 401 || undefined;
  await until(asks, { what: 'the port to ask', timeoutMs: 60_000 });
  return guarded;
}

type Opened = Awaited<ReturnType<typeof open>>;

/** What is said there by an answer that has this status. */
async function said({ visit }: Opened, status: number, about: Parameters<Opened['visit']>[0]) {
  const answer = await visit(about);
  assert.equal(answer.status, status, JSON.stringify(about));
  return answer.headers['strict-transport-security'];
}

/** The same by plain HTTP. */
async function plainly({ ports }: Opened, status: number, host: string, headers: Record<string, string> = {}) {
  const answer = await new Promise<IncomingMessage>((resolve, reject) => {
    const asked = { host: '127.0.0.1', port: ports.http, path: '/', agent: false, headers: { host, ...headers } };
    request(asked).on('error', reject).on('response', resolve).end();
  });
  answer.resume();
  assert.equal(answer.statusCode, status, host);
  return answer.headers['strict-transport-security'];
}

test('a certificate of the operator: names of the platform say so, and no others', async (t) => {
  const opened = await open(t, null);
  const headers = basic(PASSWORD);
  assert.equal(await said(opened, 200, { host: 'cloud.test' }), YEAR);
  assert.equal(await said(opened, 404, { host: 'cloud.test', path: '/nowhere' }), YEAR);
  assert.equal(await said(opened, 200, { host: 'cloud.test', path: '/api/x' }), YEAR);
  assert.equal(await said(opened, 200, { host: 'auth.cloud.test' }), YEAR);
  assert.equal(await said(opened, 200, { host: 'auth.cloud.test', method: 'HEAD' }), YEAR);
  assert.equal(await said(opened, 200, { host: 'auth.cloud.test' }), YEAR);
  assert.ok(
    opened.log.some((line) => line.includes('cache')),
    'a kept answer says so, too',
  );
  assert.equal(await said(opened, 200, { host: 'auth.cloud.test', path: '/says/7' }), 'max-age=7');
  for (const host of [hostOf(OWN), OWN_NAME]) {
    assert.equal(await said(opened, 401, { host }), undefined, host);
    assert.equal(await said(opened, 200, { host, headers }), undefined, host);
    assert.equal(await said(opened, 200, { host, headers, path: '/says/9' }), 'max-age=9', host);
  }
  assert.equal(await said(opened, 200, { host: 'graphs.cloud.test' }), undefined);
  assert.equal(await said(opened, 200, { host: 'graphs.cloud.test', path: '/says/8' }), 'max-age=8');
});

test('nothing is said by plain HTTP, nor behind a proxy that ends TLS', async (t) => {
  const proxies = { isTrusted: () => true, sendHeader: false };
  const opened = await open(t, null, { proxies });
  assert.equal(await plainly(opened, 308, 'auth.cloud.test'), undefined);
  const encrypted = { 'x-forwarded-proto': 'https' };
  assert.equal(await plainly(opened, 200, 'auth.cloud.test', encrypted), undefined);
  assert.equal(await plainly(opened, 200, 'cloud.test', encrypted), undefined);
});

test('with the platform’s own authority nothing is said', async (t) => {
  const opened = await open(t, 'ca.pem');
  assert.equal(await said(opened, 200, { host: 'cloud.test' }), undefined);
  assert.equal(await said(opened, 200, { host: 'auth.cloud.test' }), undefined);
});

test('HSTS=off says nothing, HSTS=forget takes it back; names of this machine never say it', () => {
  const trusted = { authorityFile: null };
  assert.equal(strictTransportOf('auto', 'cloud.test', trusted), YEAR);
  assert.equal(strictTransportOf('off', 'cloud.test', trusted), undefined);
  assert.equal(strictTransportOf('forget', 'cloud.test', trusted), 'max-age=0');
  for (const domain of ['localhost', 'troupe.localhost'])
    assert.equal(strictTransportOf('auto', domain, trusted), undefined, domain);
  for (const hsts of ['auto', 'forget'] as const)
    assert.equal(strictTransportOf(hsts, 'cloud.test', { authorityFile: 'ca.pem' }), undefined);
});
