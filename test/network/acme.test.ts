/** The ACME authority against a real one (Pebble, strict, refusing nonces), and against one that misbehaves. */
import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { describe, type TestContext, test } from 'node:test';
import { CaError, type CertificatePem } from '../../proto/ports/acme.ts';
import { acmeAuthority, checkChain } from '../../transports/clients/acme/authority.ts';
import { retryAfter } from '../../transports/clients/acme/problems.ts';
import { issueCertificate, makeAuthority } from '../../transports/gateway/tls/local-ca.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { openChallengeListener } from '../support/network/challenge-responder.ts';
import { type PebbleOptions, skipWithoutPebble, startPebble } from '../support/network/pebble.ts';
import { freePort } from '../support/temp.ts';

failOnLeaks();

const never = new AbortController().signal;

async function issuing(t: TestContext, options: Partial<PebbleOptions> = {}) {
  const challenges = new Map<string, CertificatePem>();
  const tlsPort = await openChallengeListener(t, challenges);
  const pebble = await startPebble(t, { tlsPort, ...options });
  const authority = acmeAuthority({
    directoryUrl: pebble.directoryUrl,
    ca: pebble.ca,
    email: 'ops@example.com',
    binding: options.binding,
    patienceMs: 60_000,
  });
  t.after(() => authority.close());
  const account = async () => {
    const key = await authority.newKey();
    return { key, url: await authority.register(key, never) };
  };
  const order = (hostname: string) => ({
    hostname,
    orderUrl: undefined,
    onOrder: async () => {},
    present: async (challenge: CertificatePem) => void challenges.set(hostname, challenge),
    signal: never,
  });
  return { pebble, authority, account, order, challenges };
}

describe('a certificate by ACME', { skip: skipWithoutPebble(), timeout: 900_000 }, () => {
  test('is issued by TLS-ALPN-01 for the key and the name, with its chain', async (t) => {
    const { pebble, authority, account, order } = await issuing(t);
    const key = await authority.newKey();
    const chain = await authority.issue({ ...order('shop.example.com'), account: await account(), key });
    const leaf = new X509Certificate(chain);
    assert.equal(leaf.subjectAltName, 'DNS:shop.example.com');
    assert.equal(chain.match(/BEGIN CERTIFICATE/g)?.length, 2);
    assert.equal(pebble.orders(), 1);
  });

  test('comes although nine of ten nonces are refused', async (t) => {
    const { authority, account, order } = await issuing(t, { nonceReject: 90 });
    const key = await authority.newKey();
    const chain = await authority.issue({ ...order('nonces.example.com'), account: await account(), key });
    assert.equal(new X509Certificate(chain).subjectAltName, 'DNS:nonces.example.com');
  });

  test('comes with an external account binding, where one is wanted', async (t) => {
    const binding = {
      kid: 'kid-1',
      hmacKey: Buffer.from('a key that both sides know, 32 bytes').toString('base64url'),
    };
    const { pebble, account } = await issuing(t, { binding });
    assert.match((await account()).url, /^https:/);
    const without = acmeAuthority({ directoryUrl: pebble.directoryUrl, ca: pebble.ca });
    t.after(() => without.close());
    await assert.rejects(without.register(await without.newKey(), never), (error) => {
      assert.ok(error instanceof CaError);
      assert.deepEqual([error.code, error.problem], ['refused', 'externalAccountRequired']);
      return true;
    });
  });

  test('is ordered from one account, however often that is made with its key', async (t) => {
    const { authority } = await issuing(t);
    const key = await authority.newKey();
    const urls = await Promise.all([1, 2, 3].map(() => authority.register(key, never)));
    assert.equal(new Set(urls).size, 1);
  });

  test('is not issued when the challenge is not answered, in the words of the authority', async (t) => {
    const { authority, account, order } = await issuing(t);
    const failing = { ...order('fail.example.com'), present: async () => {} };
    await assert.rejects(
      authority.issue({ ...failing, account: await account(), key: await authority.newKey() }),
      (error) => {
        assert.ok(error instanceof CaError);
        assert.equal(error.code, 'refused');
        assert.ok(error.problem !== undefined && error.message.length > 10, error.message);
        return true;
      },
    );
  });

  test('is taken up where it was left: one order, whoever finishes it', async (t) => {
    const { pebble, authority, account, order } = await issuing(t);
    const [owner, key] = [await account(), await authority.newKey()];
    let url = '';
    const killed = new AbortController();
    const begun = {
      ...order('resumed.example.com'),
      ...{ account: owner, key, signal: killed.signal },
      onOrder: async (placed: string) => {
        url = placed;
        killed.abort(new Error('killed'));
      },
    };
    await assert.rejects(authority.issue(begun), /killed/);
    const chain = await authority.issue({ ...order('resumed.example.com'), account: owner, key, orderUrl: url });
    checkChain(chain, key, 'resumed.example.com');
    // Again after it was finished: the node died before it could store.
    checkChain(
      await authority.issue({ ...order('resumed.example.com'), account: owner, key, orderUrl: url }),
      key,
      'resumed.example.com',
    );
    assert.equal(pebble.orders(), 1);
  });

  test('tells an account and an order that are gone from other failures', async (t) => {
    const { pebble, authority, account, order } = await issuing(t);
    const [owner, key] = [await account(), await authority.newKey()];
    await assert.rejects(
      authority.issue({
        ...order('x.example.com'),
        account: owner,
        key,
        orderUrl: `${pebble.directoryUrl.replace('/dir', '')}/my-order/none`,
      }),
      { code: 'no_order' },
    );
    // It forgets everything when it is started anew.
    await pebble.stop();
    await assert.rejects(authority.issue({ ...order('x.example.com'), account: owner, key }), { code: 'unavailable' });
    await pebble.start();
    await assert.rejects(authority.issue({ ...order('x.example.com'), account: owner, key }), { code: 'no_account' });
  });
});

/** An authority that answers every POST in one way. */
async function odd(t: TestContext, status: number, headers: Record<string, string>, body: string) {
  const own = await makeAuthority('Odd (test)', Date.now());
  const server = createServer({ ...(await issueCertificate(own, ['localhost'], Date.now())) }, (incoming, response) => {
    response.setHeader('Replay-Nonce', 'bm9uY2U');
    if (incoming.method === 'POST') {
      incoming.resume();
      response.writeHead(status, headers).end(body);
    } else if (incoming.url === '/dir') {
      const at = `https://localhost:${port}`;
      response.end(JSON.stringify({ newNonce: `${at}/nonce`, newAccount: `${at}/account`, newOrder: `${at}/order` }));
    } else response.end();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  t.after(async () => {
    server.closeAllConnections();
    server.close();
    await once(server, 'close');
  });
  const authority = acmeAuthority({ directoryUrl: `https://localhost:${port}/dir`, ca: own.cert, timeoutMs: 30_000 });
  t.after(() => authority.close());
  return authority;
}

describe('an authority that says no', () => {
  const order = async (authority: Awaited<ReturnType<typeof odd>>) => {
    const key = await authority.newKey();
    const account = { key, url: `${authority.directoryUrl}/me` };
    const noop = async () => {};
    return authority
      .issue({
        account,
        hostname: 'a.example.com',
        key,
        orderUrl: undefined,
        onOrder: noop,
        present: noop,
        signal: never,
      })
      .then(
        () => assert.fail('issued'),
        (error: unknown) => {
          assert.ok(error instanceof CaError, String(error));
          return error;
        },
      );
  };

  test('is heard: its words, its type, and how long it wants to be left alone', async (t) => {
    const body = JSON.stringify({
      type: 'urn:ietf:params:acme:error:rateLimited',
      detail: 'too many new orders\u0007 recently',
    });
    const error = await order(await odd(t, 429, { 'Retry-After': '3600' }, body));
    assert.deepEqual(
      [error.code, error.problem, error.message, error.retryAfterMs, error.isAtOrder],
      ['rate_limited', 'rateLimited', 'too many new orders  recently', 3_600_000, true],
    );
  });

  test('with HTML, nonsense or too much of it is no crash', async (t) => {
    assert.equal((await order(await odd(t, 503, {}, '<html>busy</html>'))).code, 'unavailable');
    assert.equal((await order(await odd(t, 201, {}, 'null'))).code, 'bad_answer');
    assert.equal((await order(await odd(t, 200, {}, 'x'.repeat(1 << 20)))).code, 'bad_answer');
    assert.equal(
      (await order(await odd(t, 403, {}, '{"type":"urn:ietf:params:acme:error:rejectedIdentifier"}'))).code,
      'refused',
    );
  });

  test('by silence is given up in time', async (t) => {
    const silent = await odd(t, 200, {}, '');
    await assert.rejects(
      acmeAuthority({ directoryUrl: 'https://127.0.0.1:1/dir' }).register(await silent.newKey(), never),
      { code: 'unavailable' },
    );
    const { port, close } = await mute();
    t.after(close);
    const authority = acmeAuthority({ directoryUrl: `https://localhost:${port}/dir`, timeoutMs: 100 });
    t.after(() => authority.close());
    await assert.rejects(authority.register(await silent.newKey(), never), /did not answer within 0.1 s/);
  });

  test('with the wrong chain is not believed', async () => {
    const [one, other] = [await makeAuthority('One', Date.now()), await makeAuthority('Other', Date.now())];
    const good = await issueCertificate(one, ['a.example.com'], Date.now());
    const foreign = await issueCertificate(one, ['a.example.com'], Date.now());
    checkChain(good.cert, good.key, 'a.example.com');
    const leaf = good.cert.slice(0, good.cert.indexOf('-----END CERTIFICATE-----') + 25);
    for (const [chain, key, host, what] of [
      [good.cert, foreign.key, 'a.example.com', /another key/],
      [good.cert, good.key, 'b.example.com', /not for b.example.com/],
      [`${leaf}\n${other.cert}`, good.key, 'a.example.com', /does not belong/],
      ['nothing', good.key, 'a.example.com', /empty|cannot be read/],
    ] as const)
      assert.throws(() => checkChain(chain, key, host), what);
  });

  test('Retry-After is read in seconds and as a date, within reason', () => {
    const now = Date.parse('2026-01-01T00:00:00Z');
    assert.equal(retryAfter('120', now), 120_000);
    assert.equal(retryAfter('Thu, 01 Jan 2026 01:00:00 GMT', now), 3_600_000);
    assert.equal(retryAfter('999999999', now), 7 * 86_400_000);
    for (const none of [undefined, 'soon', '-1', 'Wed, 31 Dec 2025 00:00:00 GMT'])
      assert.equal(retryAfter(none, now), undefined);
  });
});

/** A port that takes connections and says nothing. */
async function mute(): Promise<{ port: number; close: () => void }> {
  const { createServer } = await import('node:net');
  const sockets = new Set<{ destroy(): void }>();
  const server = createServer((socket) => void sockets.add(socket.on('error', () => {})));
  const port = await freePort();
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  return {
    port,
    close: () => {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
}
