/** Certificate authorities on bad days, names that do not lead here, and keys that are lost, through real gateways. */
import assert from 'node:assert/strict';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { describe, test } from 'node:test';
import { PAUSE_BEFORE_HASTE_MS } from '../../actors/network/certificate-rules.ts';
import { hastenOrder } from '../../storage/network/certificate-orders.ts';
import { parseSealKey } from '../../storage/seal.ts';
import { findAddresses } from '../../transports/clients/dns/resolvers.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { dnsServer } from '../support/network/dns-server.ts';
import { openCaFront } from '../support/network/faulty-authority.ts';
import { openIssuing, PATIENT } from '../support/network/issuing.ts';
import { skipWithoutPebble } from '../support/network/pebble.ts';
import { skipWithout } from '../support/require.ts';
import { until } from '../support/until.ts';

failOnLeaks();

const skip = skipWithoutPebble();

/** Refuses as an authority does. */
function refuse(response: ServerResponse, status: number, type: string, detail: string, headers = {}): true {
  response.writeHead(status, {
    ...{ 'content-type': 'application/problem+json', 'replay-nonce': 'bm9uY2U' },
    ...headers,
  });
  response.end(JSON.stringify({ type: `urn:ietf:params:acme:error:${type}`, detail, status }));
  return true;
}

const isNewOrder = ({ method, url = '' }: IncomingMessage) => method === 'POST' && url.startsWith('/order-plz');

describe('an authority on a bad day', { skip, timeout: 900_000 }, () => {
  test('that refuses nine of ten nonces gives a certificate all the same', async (t) => {
    const { gateways, authority, issued, told } = await openIssuing(t, { nonceReject: 90 });
    await gateways.gateway(authority());
    await gateways.map('nonces.example.com');
    await issued('nonces.example.com');
    await told('nonces.example.com', /^$/);
  });

  test('that stands still is said so, and its order goes on when it moves again', async (t) => {
    const { gateways, pebble, authority, issued, told } = await openIssuing(t);
    const gateway = await gateways.gateway(authority({ timeoutMs: 1000 }));
    pebble.signal('SIGSTOP');
    t.after(() => pebble.signal('SIGCONT'));
    await gateways.map('slow.example.com');
    const detail = await told('slow.example.com', /next try at/);
    assert.match(detail, /^The certificate authority did not answer within 1 s\. Tried .*; next try at [\dT:.-]+Z\.$/);
    const metrics = await gateway.registry.metrics();
    assert.match(metrics, /troupe_acme_orders_total\{outcome="unavailable"\} [1-9]/);
    assert.match(metrics, /troupe_certificates\{state="failing"\} 1/);
    pebble.signal('SIGCONT');
    await issued('slow.example.com');
    await told('slow.example.com', /^$/);
  });

  test('that says 429 with an hour is left alone for that hour, then served as before', async (t) => {
    const { gateways, pebble, authority, issued, told } = await openIssuing(t);
    const front = await openCaFront(t, pebble);
    let asked = 0;
    front.answer = (request, response) =>
      isNewOrder(request) &&
      ++asked > 0 &&
      refuse(response, 429, 'rateLimited', 'too many new orders recently', { 'retry-after': '3600' });
    const gateway = await gateways.gateway(authority({ directoryUrl: front.directoryUrl, ca: front.ca }));
    await gateways.map('one.example.com');
    assert.match(
      await told('one.example.com', /too many new orders recently/),
      /takes no more orders of this platform until [\dT:.-]+Z: too many new orders recently\./,
    );
    await gateways.map('two.example.com');
    await told('two.example.com', /takes no more orders of this platform until/);
    assert.equal(asked, 1);
    assert.match(await gateway.registry.metrics(), /troupe_acme_hold_seconds 3[5-9][0-9]{2}/);
    // The hour is over.
    front.answer = undefined;
    await gateways.db.run(`update acme_accounts set hold_until = now()`);
    await gateways.db.run(`update certificates set next_try = now()`);
    for (const name of ['one.example.com', 'two.example.com']) {
      await issued(name);
      await told(name, /^$/);
    }
    assert.match(await gateway.registry.metrics(), /troupe_acme_hold_seconds 0/);
  });

  test('that leaves an order in "processing" is waited for, the same order, and at last another is placed', async (t) => {
    const { gateways, pebble, authority, issued, told } = await openIssuing(t);
    const front = await openCaFront(t, pebble);
    front.change = (path, body) =>
      /^\/(my-order|finalize-order)\//.test(path) ? body.replace(/"status": "valid"/, '"status": "processing"') : body;
    await gateways.gateway(authority({ directoryUrl: front.directoryUrl, ca: front.ca, patienceMs: 500 }));
    await gateways.map('stuck.example.com');
    assert.match(
      await told('stuck.example.com', /next try at/),
      /^The certificate authority has left the order in the state "processing"\. Tried .*; next try at/,
    );
    // Looked at again: no other is placed.
    const looked = async (attempts: number) =>
      await gateways.db.run('select from certificates where attempts >= $1 and lease_until is null', [attempts]);
    await until(() => looked(2), { ...PATIENT, what: 'a second look' });
    assert.equal(pebble.orders(), 1);
    await gateways.db.run(`update certificates set attempts = 9, next_try = now()`);
    await told('stuck.example.com', /"processing", so it was given up: the next try places another/);
    assert.equal(pebble.orders(), 1);
    front.change = undefined;
    await gateways.db.run(`update certificates set next_try = now()`);
    await issued('stuck.example.com');
    assert.equal(pebble.orders(), 2);
    await told('stuck.example.com', /^$/);
  });

  test('that has revoked the account gets another', async (t) => {
    const { gateways, pebble, authority, issued, told } = await openIssuing(t);
    const front = await openCaFront(t, pebble);
    let isRevoked = true;
    front.answer = (request, response) => {
      if (request.url?.startsWith('/sign-me-up')) isRevoked = false;
      return (
        isNewOrder(request) &&
        isRevoked &&
        refuse(response, 403, 'unauthorized', 'Account is not valid, has status "revoked"')
      );
    };
    await gateways.gateway(authority({ directoryUrl: front.directoryUrl, ca: front.ca }));
    // The account is made at the first order, and revoked then.
    await gateways.map('first.example.com');
    await issued('first.example.com');
    isRevoked = true;
    await gateways.map('second.example.com');
    await issued('second.example.com');
    await told('second.example.com', /^$/);
    // Each is asked for once, and again when the authority did not like the nonce.
    assert.ok(front.posts.filter((path) => path.startsWith('/sign-me-up')).length >= 2);
  });

  test('whose limits are reached is not asked; the next orders follow when there is room', async (t) => {
    const { gateways, pebble, authority, issued, told } = await openIssuing(t);
    const gateway = await gateways.gateway(authority());
    await gateways.map('first.example.com');
    await issued('first.example.com');
    await gateways.db.run('update acme_accounts set budget = -10, budget_at = now()');
    await gateways.map('second.example.com');
    await told('second.example.com', /has placed as many orders as it may; the next follow within the hour/);
    assert.equal(pebble.orders(), 1);
    assert.match(await gateway.registry.metrics(), /troupe_acme_budget 0/);
    // More than what is kept for renewals.
    await gateways.db.run('update acme_accounts set budget = 25, budget_at = now()');
    await issued('second.example.com');
    await told('second.example.com', /^$/);
  });
});

describe('a hostname that does not lead here', { skip: skip || skipWithout('knotd'), timeout: 900_000 }, () => {
  test('is not ordered for while it leads nowhere, and refused by the authority with what to do while it leads elsewhere', async (t) => {
    const dns = await dnsServer(t, 'example.org');
    const { gateways, pebble, authority, issued, told } = await openIssuing(t, { dns: dns.address });
    await dns.set('ingress A 127.0.0.1');
    const find = findAddresses({ servers: [dns.address] });
    await gateways.gateway(authority(), { dns: { find, ingressHost: 'ingress.example.org' } });
    await gateways.map('shop.example.org');
    assert.match(
      await told('shop.example.org', /no address in DNS/),
      /^shop\.example\.org has no address in DNS yet\. Once it is a CNAME of ingress\.example\.org, HTTPS follows by itself, at once after a verify\. Looked .*; next try at/,
    );
    assert.equal(pebble.orders(), 0);
    // To another machine, where nobody answers.
    await dns.set('ingress A 127.0.0.1', 'shop A 127.0.0.2');
    assert.match(
      await told('shop.example.org', /leads to/),
      /^The certificate authority says: .* shop\.example\.org leads to 127\.0\.0\.2, and not to ingress\.example\.org \(127\.0\.0\.1\): make it a CNAME of ingress\.example\.org\. Tried .*, or sooner after a verify\.$/,
    );
    assert.equal(pebble.orders(), 1);
    await dns.set('ingress A 127.0.0.1', 'shop CNAME ingress');
    // Authorities count what they could not verify: so soon not even whoever mended it is heard.
    assert.equal(await hastenOrder(gateways.db, 'shop.example.org', PAUSE_BEFORE_HASTE_MS), false);
    await gateways.db.run(
      `update certificates set tried_at = now() - interval '15 minutes', next_try = now() + interval '1 h'`,
    );
    assert.equal(await hastenOrder(gateways.db, 'shop.example.org', PAUSE_BEFORE_HASTE_MS), true);
    await issued('shop.example.org');
    await told('shop.example.org', /^$/);
    assert.equal(pebble.orders(), 2);
  });

  test('resolvers that are down stop no order', async (t) => {
    const { gateways, authority, issued } = await openIssuing(t);
    const find = findAddresses({ servers: ['127.0.0.1:9'], timeoutMs: 100 });
    await gateways.gateway(authority(), { dns: { find, ingressHost: 'ingress.example.org' } });
    await gateways.map('shop.example.org');
    await issued('shop.example.org');
  });
});

describe('keys that do not open any more', { skip, timeout: 900_000 }, () => {
  test('of the account, of a certificate and of an order are replaced, not stumbled over for ever', async (t) => {
    const { gateways, pebble, authority, issued, told } = await openIssuing(t);
    const first = await gateways.gateway(authority());
    await gateways.map('old.example.com');
    await issued('old.example.com');
    await first.stop();
    // As after a change of ENCRYPTION_KEY. The order that lies there was begun under the old one, too.
    const other = await gateways.again(authority(), { sealKey: parseSealKey('22'.repeat(32)) });
    await gateways.map('new.example.com');
    await issued('new.example.com');
    const ca = await pebble.root();
    await until(async () => (await other.get('https://old.example.com/', ca).catch(() => undefined))?.status === 200, {
      ...PATIENT,
      what: 'the old hostname is served with another certificate',
    });
    assert.equal(
      await gateways.db.run(`select from certificates where hostname = 'old.example.com' and serial = 2`),
      1,
    );
    assert.equal(pebble.orders(), 3);
    await told('old.example.com', /^$/);
    // A bit of it flips on the disk.
    await gateways.db.run(
      `update certificates set key_sealed = set_byte(key_sealed, 40, get_byte(key_sealed, 40) # 1) where hostname = 'new.example.com'`,
    );
    await other.stop();
    const third = await gateways.again(authority(), { sealKey: parseSealKey('22'.repeat(32)) });
    await until(async () => (await third.get('https://new.example.com/', ca).catch(() => undefined))?.status === 200, {
      ...PATIENT,
      what: 'the damaged one was replaced',
    });
    assert.equal(pebble.orders(), 4);
  });
});
