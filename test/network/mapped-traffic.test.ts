/** Traffic of mapped hosts: whose it is, and where it never goes. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { request as httpsRequest, type RequestOptions } from 'node:https';
import { describe, test } from 'node:test';
import type { HostAddresses } from '../../proto/ports/dns.ts';
import { says } from '../support/gateway/listeners.ts';
import { httpOrigin } from '../support/gateway/proxy.ts';
import { exchange } from '../support/gateway/raw-exchange.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { openIssuing, PATIENT } from '../support/network/issuing.ts';
import { skipWithoutPebble } from '../support/network/pebble.ts';
import { until } from '../support/until.ts';

failOnLeaks();

const get = (host: string) => `GET / HTTP/1.1\r\nHost: ${host}\r\n\r\n`;

describe('mapped hosts of several people on one gateway', { skip: skipWithoutPebble(), timeout: 900_000 }, () => {
  test('a connection is for the host it was opened for, and its session resumes with no other', async (t) => {
    const { gateways, pebble, authority, issued } = await openIssuing(t);
    const gateway = await gateways.gateway(authority());
    for (const name of ['a.example.com', 'b.example.com']) {
      await gateways.map(name);
      await issued(name);
    }
    const ca = await pebble.root();
    await until(async () => (await gateway.get('https://b.example.com/', ca).catch(() => undefined))?.status === 200, {
      ...PATIENT,
      what: 'both are served',
    });
    for (const maxVersion of ['TLSv1.2', 'TLSv1.3'] as const) {
      const socket = await gateway.dial('a.example.com', { ca, maxVersion });
      const tickets: Buffer[] = [];
      socket.on('session', (ticket: Buffer) => void tickets.push(ticket));
      for (const other of ['b.example.com', 'www.cloud.test', 'abcdefghijk1.compute.cloud.test', '127.0.0.1'])
        assert.match(
          await says(socket, get(other), /another host name\.\n$/),
          /^HTTP\/1\.1 421 Misdirected Request/,
          `${maxVersion} ${other}`,
        );
      await says(socket, get('a.example.com'), /the container of a\.example\.com$/);
      const ticket = await until(() => tickets.at(-1) ?? socket.getSession(), { what: 'a session' });
      socket.destroy();
      const again = await gateway.dial('a.example.com', { ca, maxVersion, session: ticket });
      assert.equal(again.isSessionReused(), true, maxVersion);
      again.destroy();
      const other = await gateway.dial('b.example.com', { ca, maxVersion, session: ticket });
      assert.equal(other.isSessionReused(), false, maxVersion);
      assert.equal(other.getPeerCertificate().subjectaltname, 'DNS:b.example.com');
      await says(other, get('a.example.com'), /another host name\.\n$/);
      other.destroy();
    }
  });

  test('a container that leads its hostname back to the gateway is told so, and nothing goes round', async (t) => {
    let passed = 0;
    let inward: RequestOptions = {};
    const origin = await httpOrigin(t, (incoming, response) => {
      passed++;
      const onward = httpsRequest({ ...inward, headers: incoming.headers, agent: false }, (answer) => {
        response.writeHead(answer.statusCode ?? 0);
        answer.pipe(response);
      });
      onward.on('error', () => response.destroy()).end();
    });
    const { gateways, pebble, authority, issued } = await openIssuing(t, {}, origin);
    const [one, two] = [await gateways.gateway(authority()), await gateways.gateway(authority())];
    await gateways.map('loop.example.com');
    await issued('loop.example.com');
    const ca = await pebble.root();
    // Around by another gateway of the platform.
    inward = { host: '127.0.0.1', port: two.ports.https, servername: 'loop.example.com', ca, path: '/' };
    await until(
      async () => {
        const reply = await one.get('https://loop.example.com/', ca).catch(() => undefined);
        return reply?.status === 508 && /sends it back here/.test(reply.text);
      },
      { ...PATIENT, what: 'the loop is ended' },
    );
    passed = 0;
    assert.equal((await one.get('https://loop.example.com/', ca)).status, 508);
    assert.equal(passed, 1);
  });

  test('where DNS says that a hostname leads is never dialled, whatever it says in between', async (t) => {
    const origin = await httpOrigin(t, (_incoming, response) => response.end('the container'));
    let intruded = 0;
    // The same port on another address of this machine, as DNS will name it.
    const inside = createServer((_incoming, response) => response.end('an internal service'));
    inside.on('connection', () => void intruded++);
    inside.listen(origin, '127.0.0.2');
    await once(inside, 'listening');
    t.after(async () => {
      inside.closeAllConnections();
      inside.close();
      await once(inside, 'close');
    });
    const answers = ['203.0.113.7', '127.0.0.2', '169.254.169.254'];
    let asked = 0;
    const find = async (): Promise<HostAddresses> => ({
      ...{ kind: 'found', addresses: [answers[asked++ % answers.length] ?? ''] },
    });
    const { gateways, pebble, authority, issued } = await openIssuing(t, {}, origin);
    const gateway = await gateways.gateway(authority(), { dns: { find, ingressHost: 'ingress.cloud.test' } });
    await gateways.map('rebind.example.org');
    await issued('rebind.example.org');
    const ca = await pebble.root();
    for (let n = 0; n < answers.length; n++) {
      const reply = await gateway.get('https://rebind.example.org/', ca);
      assert.deepEqual([reply.status, reply.text], [200, 'the container']);
      // Ordered anew: DNS is looked at, and says something else.
      await gateways.db.run(`update certificates set renew_at = now()`);
      await until(() => gateways.db.run('select from certificates where serial = $1', [n + 2]), {
        ...{ ...PATIENT, what: 'another certificate' },
      });
    }
    for (const host of ['127.0.0.2', `127.0.0.2:${origin}`, '169.254.169.254', 'localhost'])
      assert.match(await exchange(gateway.ports.http, get(host)), /^HTTP\/1\.1 404 /, host);
    assert.ok(asked > answers.length);
    assert.equal(intruded, 0);
  });
});
