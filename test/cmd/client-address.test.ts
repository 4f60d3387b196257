/** Behind their own gateway the services know their true clients: what the login throttle counts can be neither shared nor forged. */

import assert from 'node:assert/strict';
import { request as httpRequest } from 'node:http';
import { Agent, request as httpsRequest } from 'node:https';
import { Readable } from 'node:stream';
import { describe, type TestContext, test } from 'node:test';
import { readEnvironment } from '../../cmd/config/config.ts';
import { openSecrets } from '../../cmd/config/data-dir.ts';
import { proxiesOf } from '../../cmd/config/gateway-options.ts';
import { startPlatform } from '../../cmd/node/platform.ts';
import { gatewayTokenSigner, gatewayTokenVerifier } from '../../proto/gateway/gateway-token.ts';
import { GATEWAY_FIELD } from '../../proto/gateway/traffic.ts';
import { hostsOfOthers } from '../../proto/service-paths.ts';
import { clientAddress } from '../../transports/api/client-address.ts';
import { certificateContext } from '../../transports/gateway/tls/front.ts';
import { parseTrusted } from '../../transports/wire/peer-address.ts';
import { testDatabase } from '../support/database/database.ts';
import { memoryEngine } from '../support/engine/memory-engine.ts';
import { certificates } from '../support/gateway/listeners.ts';
import { ADAPTERS } from '../support/http/adapters.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { silentLog } from '../support/log.ts';

failOnLeaks();

const PASSWORD = 'the admin of this test';
const DOMAIN = 'cloud.test';

async function open(t: TestContext, adapter: 'own' | 'uws' | 'node', trusted?: string) {
  const database = await testDatabase();
  const environment = readEnvironment({
    ADMIN_PASSWORD: PASSWORD,
    HTTP_ADAPTER: adapter,
    JWT_SECRET: 'not a secret: '.repeat(4),
    ENCRYPTION_KEY: '01'.repeat(32),
  });
  const { own, authority } = await certificates();
  const platform = await startPlatform({
    environment,
    secrets: openSecrets('.', environment), // All given: no file is touched.
    database: database.connection,
    engine: async () => memoryEngine(),
    ...{
      domain: DOMAIN,
      host: '127.0.0.1',
      ports: { auth: 0, compute: 0, net: 0, monitor: 0, notify: 0, http: 0, https: 0, ssh: 0 },
    },
    certificate: { context: certificateContext(own), authorityFile: null },
    proxies: proxiesOf({ trustedProxies: trusted, proxyProtocol: false }, environment),
    ...{ accessLog: undefined, isCaching: true, log: silentLog, onProgress: () => {} },
  });
  t.after(async () => {
    await platform.stop();
    await database.close();
  });
  /** The status of a wrong login, straight to the service or through the gateway, from an address of this machine. */
  const attempt = (
    via: 'gateway' | 'service',
    localAddress: string,
    headers: Record<string, string> = {},
  ): Promise<number> =>
    new Promise((resolve, reject) => {
      const common = { method: 'POST', path: '/api/login', host: '127.0.0.1', localAddress };
      const all = { 'content-type': 'application/json', ...headers };
      const outgoing =
        via === 'service'
          ? httpRequest({ ...common, port: new URL(platform.urls.auth).port, headers: all, agent: false })
          : httpsRequest({
              ...{ ...common, port: new URL(platform.urls.https).port, headers: { ...all, host: `auth.${DOMAIN}` } },
              agent: new Agent({ ca: authority.cert, servername: `auth.${DOMAIN}` }),
            });
      outgoing.on('error', reject).on('response', (response) => {
        response.resume().on('end', () => resolve(response.statusCode ?? 0));
      });
      outgoing.end(JSON.stringify({ username: 'admin', password: 'wrong password' }));
    });
  /** Guesses until the throttle closes, which it does after five, and after each wait of 1, 2, 4 ... s that has passed meanwhile. */
  const guessUntilRefused = async (one: (i: number) => Promise<number>): Promise<void> => {
    const began = performance.now();
    let passed = 0;
    for (;;) {
      const status = await one(passed);
      if (status === 429) break;
      assert.equal(status, 401);
      const waitsPassed = Math.floor(Math.log2(1 + (performance.now() - began) / 1000));
      assert.ok(++passed <= 5 + waitsPassed, `guess ${passed} was let in`);
    }
    assert.ok(passed >= 5, `${passed} were let in`);
  };
  return { attempt, guessUntilRefused };
}

for (const adapter of ADAPTERS) {
  describe(`the login throttle behind the gateway (${adapter})`, () => {
    test('counts clients apart, and a client cannot make itself another', async (t) => {
      const { attempt, guessUntilRefused } = await open(t, adapter);
      await guessUntilRefused(() => attempt('gateway', '127.0.0.2'));
      // Others are not held up by it, and neither is who comes straight from this machine.
      assert.equal(await attempt('gateway', '127.0.0.3'), 401);
      assert.equal(await attempt('service', '127.0.0.1'), 401);
      const forged = (i: number) => ({
        'x-forwarded-for': `203.0.113.${i}`,
        'x-real-ip': `203.0.113.${i}`,
        forwarded: `for=203.0.113.${i}`,
        [GATEWAY_FIELD]: `guess ${i}`,
      });
      await guessUntilRefused((i) => attempt('gateway', '127.0.0.4', forged(i)));
      await guessUntilRefused((i) => attempt('service', '127.0.0.5', forged(i)));
    });

    test('believes proxies that the operator named, and only those', async (t) => {
      const { attempt, guessUntilRefused } = await open(t, adapter, '127.0.0.6');
      const behind = (client: string) => ({ 'x-forwarded-for': `198.51.100.1, ${client}` });
      for (const via of ['gateway', 'service'] as const) {
        const client = via === 'gateway' ? '203.0.113.1' : '203.0.113.2';
        await guessUntilRefused(() => attempt(via, '127.0.0.6', behind(client)));
        assert.equal(await attempt(via, '127.0.0.6', behind('203.0.113.3')), 401);
        const stranger = via === 'gateway' ? '127.0.0.7' : '127.0.0.8';
        await guessUntilRefused((i) => attempt(via, stranger, behind(`203.0.113.${i}`)));
      }
    });
  });
}

test('an address is believed by whoever knows the secret of the gateway, or comes from a trusted address', () => {
  const isTrusted = parseTrusted('10.0.0.0/8');
  let now = Date.now();
  const clock = { isShared: true, now: () => now } as const;
  const secret = 'what this platform shares: 32 bytes or more';
  const warnings: string[] = [];
  const log = { ...silentLog, warn: (_fields: object, message: string) => void warnings.push(message) };
  const of = clientAddress({
    ...{ isGatewayToken: gatewayTokenVerifier(secret, clock), isTrusted, log },
    hostsOfOthers: hostsOfOthers('auth', 'cloud.test'),
  });
  const from = (remoteAddress: string, headers: Record<string, string>) =>
    of({
      ...{ method: 'POST', path: '/api/login', query: 'a=%20b', remoteAddress, signal: new AbortController().signal },
      header: (name) => headers[name],
      stream: () => Readable.from([]),
      body: () => Promise.resolve(new Uint8Array(0)),
    });
  const host = 'auth.cloud.test:8443';
  const request = { method: 'POST', host, target: '/api/login?a=%20b', address: '203.0.113.9' };
  const saying = (word: string, address = '203.0.113.9', forwardedHost = host) => ({
    ...{ 'x-troupe-gateway': word, 'x-forwarded-for': address, 'x-forwarded-host': forwardedHost },
  });
  const sign = gatewayTokenSigner(secret, clock);
  const word = sign(request);
  const signed = { 'x-troupe-gateway': word };
  assert.equal(from('192.0.2.1', saying(word)), '203.0.113.9');
  assert.equal(from('192.0.2.1', saying(sign({ ...request, address: '2001:db8::1' }), '2001:db8::1')), '2001:db8::1');
  for (const value of ['', 'x', '203.0.113.9, 203.0.113.8', '203.0.113.9:80'])
    assert.equal(from('192.0.2.1', saying(sign({ ...request, address: value }), value)), '192.0.2.1', value);
  // A word says nothing about another client, another request, or a later time; nobody else can say one.
  assert.equal(from('192.0.2.1', saying(word, '203.0.113.10')), '192.0.2.1');
  assert.equal(from('192.0.2.1', saying(sign({ ...request, target: '/api/login' }))), '192.0.2.1');
  assert.equal(from('192.0.2.1', saying(sign({ ...request, method: 'GET' }))), '192.0.2.1');
  assert.equal(from('192.0.2.1', saying(word, '203.0.113.9', 'cloud.test')), '192.0.2.1');
  // Nor one that was given to another service.
  for (const other of ['compute.cloud.test', 'net.cloud.test:443', 'cloud.test'])
    assert.equal(
      from('192.0.2.1', saying(sign({ ...request, host: other }), '203.0.113.9', other)),
      other === 'cloud.test' ? '203.0.113.9' : '192.0.2.1',
      other,
    );
  assert.equal(from('192.0.2.1', saying(gatewayTokenSigner(`${secret}?`, clock)(request))), '192.0.2.1');
  assert.equal(from('192.0.2.1', saying(`${word}A`)), '192.0.2.1');
  assert.equal(from('192.0.2.1', saying(word.replace(/\.[^.]*\./, '.zzzz.'))), '192.0.2.1');
  now += 120_001;
  assert.equal(from('192.0.2.1', saying(word)), '192.0.2.1');
  // While the secret is being rotated, the next one and the one before count, too.
  const both = gatewayTokenVerifier([`${secret}?`, secret], clock);
  assert.ok(both(sign(request), request) && both(gatewayTokenSigner(`${secret}?`, clock)(request), request));
  assert.equal(from('192.0.2.1', { 'x-forwarded-for': '203.0.113.9' }), '192.0.2.1');
  assert.equal(from('10.1.1.1', { 'x-forwarded-for': '203.0.113.9, 10.2.2.2' }), '203.0.113.9');
  assert.equal(from('192.0.2.1', signed), '192.0.2.1');
  // Told once, not for each request.
  assert.equal(warnings.filter((message) => /TRUSTED_PROXIES/.test(message)).length, 1);
});

test('proxies are named in a way that means something, or the start is refused', () => {
  const named = (trustedProxies: string | undefined, proxyProtocol = false, TRUSTED_PROXIES?: string) =>
    proxiesOf({ trustedProxies, proxyProtocol }, { TRUSTED_PROXIES });
  assert.equal(named(undefined), undefined);
  assert.equal(named('10.0.0.0/8', true)?.sendHeader, true);
  assert.equal(named(undefined, false, '10.0.0.0/8')?.isTrusted('10.1.2.3'), true);
  assert.equal(named('192.0.2.1', false, '10.0.0.0/8')?.isTrusted('10.1.2.3'), false);
  assert.throws(() => named('proxy.test'), /--trusted-proxies is proxy\.test, but must be addresses/);
  assert.throws(() => named(undefined, true), /--proxy-protocol needs --trusted-proxies/);
  assert.throws(() => readEnvironment({ TRUSTED_PROXIES: '10.0.0.0/33' }), /TRUSTED_PROXIES: must be addresses/);
});
