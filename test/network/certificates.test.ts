/** Certificates of mapped hosts through real gateways with a real authority. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { promisify } from 'node:util';
import { z } from 'zod';
import { CaError, type CaOrder, type CertificateAuthority } from '../../proto/ports/acme.ts';
import { issueCertificate, makeAuthority } from '../../transports/gateway/tls/local-ca.ts';
import type { Pem } from '../../transports/gateway/tls/pem.ts';
import { httpOrigin } from '../support/gateway/proxy.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { openIssuing } from '../support/network/issuing.ts';
import { openMappedGateways } from '../support/network/mapped-hosts.ts';
import { skipWithoutPebble } from '../support/network/pebble.ts';
import { tempDir } from '../support/temp.ts';
import { until } from '../support/until.ts';

failOnLeaks();

describe('a mapped host with a real authority', { skip: skipWithoutPebble(), timeout: 900_000 }, () => {
  test('has its certificate before its first visitor, and curl believes it', async (t) => {
    const { gateways, pebble, authority, issued } = await openIssuing(t);
    const gateway = await gateways.gateway(authority());
    const began = performance.now();
    await gateways.map('shop.example.com');
    await issued('shop.example.com');
    t.diagnostic(`from verified to issued: ${Math.round(performance.now() - began)} ms`);
    const root = join(await tempDir(t), 'root.pem');
    await writeFile(root, await pebble.root());
    const { stdout } = await promisify(execFile)('curl', [
      ...['-sS', '--max-time', '10', '--noproxy', '*', '--cacert', root],
      ...['--resolve', `shop.example.com:${gateway.ports.https}:127.0.0.1`],
      `https://shop.example.com:${gateway.ports.https}/`,
    ]);
    assert.equal(stdout, `the container of shop.example.com:${gateway.ports.https}`);
    const plain = await gateway.get('http://shop.example.com/a?b');
    assert.deepEqual([plain.status, plain.location], [308, 'https://shop.example.com/a']);
    assert.equal((await gateway.get('http://nobody.example.com/')).status, 404);
    await until(async () => (await gateways.detail('shop.example.com')) === '', { what: 'nothing more to say' });
    const metrics = await gateway.registry.metrics();
    assert.match(metrics, /troupe_certificates\{state="valid"\} 1/);
    assert.match(metrics, /troupe_acme_orders_total\{outcome="issued"\} 1/);
    assert.match(metrics, /troupe_acme_budget 99/);
  });

  test('asked for on three gateways at once, it is ordered once', async (t) => {
    const { gateways, pebble, authority, issued } = await openIssuing(t);
    const running = await Promise.all([
      gateways.gateway(authority()),
      gateways.gateway(authority()),
      gateways.gateway(authority()),
    ]);
    const names = ['one.example.com', 'two.example.com', 'three.example.com'];
    await Promise.all(names.map((name) => gateways.map(name)));
    for (const name of names) await issued(name);
    assert.equal(pebble.orders(), names.length);
    const ca = await pebble.root();
    for (const gateway of running)
      for (const name of names)
        await until(async () => (await gateway.get(`https://${name}/`, ca).catch(() => undefined))?.status === 200, {
          what: `${name} on every gateway`,
        });
    assert.equal(pebble.orders(), names.length);
  });

  test('the challenge is never shown to an ordinary client, and only a pending one is answered', async (t) => {
    const { gateways, pebble, authority, issued } = await openIssuing(t);
    const gateway = await gateways.gateway(authority());
    await gateways.map('alpn.example.com');
    await issued('alpn.example.com');
    const ca = await pebble.root();
    const acme = { ALPNProtocols: ['acme-tls/1'], rejectUnauthorized: false };
    for (const name of ['alpn.example.com', 'nobody.example.com', 'www.cloud.test'])
      await assert.rejects(gateway.dial(name, acme), /alert|unrecognized|application protocol/i, name);
    // Renewed while clients come and go.
    await gateways.db.run(`update certificates set renew_at = now() - interval '1 s'`);
    let isOver = false;
    const seen = new Set<string>();
    const visitors = Array.from({ length: 4 }, async () => {
      while (!isOver) {
        const socket = await gateway.dial('alpn.example.com', {
          ca,
          ALPNProtocols: ['http/1.1', 'acme-tls/1'],
          minVersion: 'TLSv1.2',
        });
        seen.add(`${socket.alpnProtocol} ${socket.getPeerCertificate().subjectaltname} ${socket.authorized}`);
        socket.destroy();
      }
    });
    const renewed = () => gateways.db.run('select from certificates where serial = 2');
    await until(renewed, { what: 'the renewal', timeoutMs: 60_000 }).finally(() => {
      isOver = true;
    });
    await Promise.all(visitors);
    assert.deepEqual([...seen], ['http/1.1 DNS:alpn.example.com true']);
  });

  test('random server names cause no order and leave nothing behind', async (t) => {
    const { gateways, pebble, authority, issued } = await openIssuing(t);
    const gateway = await gateways.gateway(authority());
    await gateways.map('known.example.com');
    await issued('known.example.com');
    const before = await gateways.db.many(z.object({ n: z.number() }), 'select count(*)::int as n from certificates');
    for (let round = 0; round < 20; round++)
      await Promise.all(
        Array.from({ length: 25 }, async () => {
          const name = `${randomBytes(8).toString('hex')}.example.com`;
          await assert.rejects(
            gateway.dial(name, { rejectUnauthorized: false }),
            /unrecognized name|UNRECOGNIZED_NAME/i,
          );
        }),
      );
    assert.equal(pebble.orders(), 1);
    assert.deepEqual(
      await gateways.db.many(z.object({ n: z.number() }), 'select count(*)::int as n from certificates'),
      before,
    );
  });

  test('an authority that is down is said so, and waited for', async (t) => {
    const { gateways, pebble, authority, issued } = await openIssuing(t);
    await gateways.gateway(authority());
    await pebble.stop();
    await gateways.map('down.example.com');
    await until(async () => /cannot be reached.*next try at/.test(await gateways.detail('down.example.com')), {
      what: 'a word about it',
    });
    await pebble.start();
    await issued('down.example.com');
    await until(async () => (await gateways.detail('down.example.com')) === '', { what: 'nothing more to say' });
  });

  test('an account that the authority has forgotten is made anew', async (t) => {
    const { gateways, pebble, authority, issued } = await openIssuing(t);
    await gateways.gateway(authority());
    await gateways.map('first.example.com');
    await issued('first.example.com');
    await pebble.stop();
    await pebble.start();
    await gateways.map('second.example.com');
    await issued('second.example.com');
  });

  test('a node that dies in the middle of an order leaves it to another, which places none of its own', async (t) => {
    const { gateways, pebble, authority, issued } = await openIssuing(t);
    const real = authority();
    let isPlaced = false;
    const dying: CertificateAuthority = {
      directoryUrl: real.directoryUrl,
      newKey: () => real.newKey(),
      register: (key, signal) => real.register(key, signal),
      close: () => real.close(),
      issue: async (order) => {
        await real.issue({
          ...order,
          onOrder: async (url) => {
            await order.onOrder(url);
            isPlaced = true;
            // Nothing more is heard of it, but its lease.
            await new Promise((_resolve, reject) =>
              order.signal.addEventListener('abort', () => reject(order.signal.reason)),
            );
          },
        });
        throw new Error('it went on');
      },
    };
    const first = await gateways.gateway(dying);
    await gateways.map('orphan.example.com');
    await until(() => isPlaced, { what: 'an order' });
    await first.stop();
    assert.equal(pebble.orders(), 1);
    const held = await gateways.db.run(
      'select from certificates where order_url is not null and order_key_sealed is not null',
    );
    assert.equal(held, 1);
    await gateways.again(real);
    await issued('orphan.example.com');
    assert.equal(pebble.orders(), 1);
  });
});

/** An authority in memory, whose orders the test decides about. */
async function fake(issue: (order: CaOrder, sign: (hostname: string) => Promise<Pem>) => Promise<Pem | CaError>) {
  const ca = await makeAuthority('Fake', Date.now());
  const orders: string[] = [];
  const keys = new Map<string, string>();
  let next: Pem | undefined;
  const authority: CertificateAuthority = {
    directoryUrl: 'https://fake.test/dir',
    // The key of what is issued in the end.
    newKey: async () => {
      next = await issueCertificate(ca, [`n${keys.size}.example.com`], Date.now());
      keys.set(next.key, next.cert);
      return next.key;
    },
    register: async () => 'https://fake.test/me',
    issue: async (order) => {
      orders.push(order.hostname);
      const result = await issue(order, (hostname) => issueCertificate(ca, [hostname], Date.now()));
      if (result instanceof CaError) throw result;
      return keys.get(order.key) ?? '';
    },
    close: () => {},
  };
  return { authority, orders, ca };
}

describe('an authority that says wait', { timeout: 900_000 }, () => {
  const gateways = async (t: TestContext) =>
    openMappedGateways(t, await httpOrigin(t, (_incoming, response) => response.end('here')));

  test('for an hour is left alone for an hour, with its words in every mapping that waits', async (t) => {
    const it = await gateways(t);
    const { authority, orders } = await fake(
      async () =>
        new CaError('rate_limited', 'too many new orders recently', {
          retryAfterMs: 3_600_000,
          problem: 'rateLimited',
          isAtOrder: true,
        }),
    );
    const gateway = await it.gateway(authority);
    await it.map('a.example.com');
    await until(async () => /too many new orders recently/.test(await it.detail('a.example.com')), {
      what: 'its words',
    });
    await it.map('b.example.com');
    await until(async () => /takes no more orders of this platform until/.test(await it.detail('b.example.com')), {
      what: 'the other waits, too',
    });
    assert.deepEqual(orders, ['a.example.com']);
    assert.match(await gateway.registry.metrics(), /troupe_acme_hold_seconds 3[5-9][0-9]{2}/);
    // Handshakes for the name are refused as not there yet, not as unknown, once the gateway has heard of it.
    const refusal = () => gateway.dial('a.example.com', { rejectUnauthorized: false }).then(() => 'none', String);
    await until(async () => !/unrecognized name/i.test(await refusal()), { what: 'the gateway knows the name' });
    assert.match(await refusal(), /internal error|INTERNAL_ERROR/i);
  });

  test('what has expired is served while nothing better is there, whatever the clocks say', async (t) => {
    const it = await gateways(t);
    let isDown = false;
    const { authority, orders, ca } = await fake(async (_order, sign) =>
      isDown ? new CaError('unavailable', 'down') : sign('a.example.com'),
    );
    const gateway = await it.gateway(authority);
    await it.map('a.example.com');
    await until(() => it.db.run('select from certificates where chain is not null'), { what: 'a certificate' });
    isDown = true;
    for (const shift of ['-398 days', '+1 day']) {
      await it.db.run(
        `update certificates set not_after = now() + $1::interval, not_before = now() + $1::interval - interval '90 days', renew_at = now(), next_try = null`,
        [shift],
      );
      await until(() => it.db.run('select from certificates where last_code is not null and next_try > now()'), {
        what: 'a failed renewal',
      });
      const socket = await gateway.dial('a.example.com', { ca: ca.cert, checkServerIdentity: () => undefined });
      assert.equal(socket.authorized, true);
      socket.destroy();
    }
    assert.ok(orders.length >= 3, String(orders.length));
  });

  test('a mapping that is deleted while its order runs gets nothing, and is served by nobody', async (t) => {
    const it = await gateways(t);
    let go: () => void = () => {};
    const waits = new Promise<void>((resolve) => {
      go = resolve;
    });
    const { authority, orders } = await fake(async (order, sign) => {
      await waits;
      return sign(order.hostname);
    });
    const gateway = await it.gateway(authority);
    const id = await it.map('a.example.com');
    await until(() => orders.length === 1, { what: 'the order' });
    await it.unmap(id);
    go();
    await until(async () => /unwanted"\} 1/.test(await gateway.registry.metrics()), { what: 'the end of the order' });
    assert.equal(await it.db.run('select from certificates where chain is not null'), 0);
    await until(
      async () => {
        const refused = await gateway.dial('a.example.com', { rejectUnauthorized: false }).then(() => '', String);
        return /unrecognized name/i.test(refused);
      },
      { what: 'the name is unknown' },
    );
  });

  test('none at all: mapped hosts say that there is no HTTPS, and why', async (t) => {
    const it = await gateways(t);
    await it.gateway(undefined);
    await it.map('a.example.com');
    await until(async () => /no certificate authority/.test(await it.detail('a.example.com')), {
      what: 'a word about it',
    });
  });
});
