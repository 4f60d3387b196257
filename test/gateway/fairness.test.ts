/** Whoever takes all he can get leaves others what they need: connections to the gateway, requests at an origin, bodies that never come. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { describe, test } from 'node:test';
import { createSecureContext } from 'node:tls';
import { siteOf } from '../../proto/client-network.ts';
import type { ProxyRequest } from '../../proto/gateway/traffic.ts';
import { GatewayListeners } from '../../transports/gateway/listeners.ts';
import { SshAdmission } from '../../transports/gateway/ssh/admission.ts';
import { Admission } from '../../transports/gateway/tcp/admission.ts';
import { type Place, type PlaceLimits, Places } from '../../transports/gateway/tcp/places.ts';
import { quiet } from '../support/gateway/listeners.ts';
import { openProxy, rawClient, rawOrigin } from '../support/gateway/proxy.ts';
import { freePort } from '../support/temp.ts';
import { until } from '../support/until.ts';

/** Takes places, and remembers who lost one. */
function openPlaces(limits: PlaceLimits) {
  const places = new Places(limits);
  const lost: string[] = [];
  const take = (address: string, name = address): Place | undefined =>
    places.take(address, { evict: () => lost.push(name) });
  const fill = (address: string, most = 100_000) => {
    let count = 0;
    while (count < most && lost.length === 0 && take(address, `${address} ${count}`) !== undefined) count++;
    return count;
  };
  return { places, lost, take, fill };
}

describe('places', () => {
  test('are counted by network: all addresses of an IPv6 /64 are one, those of a /48 have a second budget', () => {
    const { places } = openPlaces({ total: 20_000, perNetwork: 1000, perSite: 4000 });
    const holder = { evict: () => assert.fail('nobody has to go') };
    const taken = (make: (i: number) => string) =>
      Array.from({ length: 6000 }, (_, i) => places.take(make(i), holder)).filter((place) => place !== undefined)
        .length;
    assert.equal(
      taken((i) => `2001:db8:1:1::${i.toString(16)}`),
      1000,
    );
    assert.equal(
      taken((i) => `2001:db8:1:${(i % 100) + 2}::${i.toString(16)}`),
      3000,
    );
    assert.equal(
      taken((i) => `2001:db8:2:${i % 3}::1`),
      3000,
    );
    assert.equal(siteOf('2001:db8:1:ffff::1'), siteOf('2001:db8:1::'));
    assert.notEqual(siteOf('2001:db8:1::'), siteOf('2001:db8:2::'));
  });

  test('are kept for the other family of addresses', () => {
    const { fill, take, places } = openPlaces({ total: 100, perNetwork: 50, perSite: 50 });
    for (let i = 0; i < 10; i++) fill(`2001:db8:${i}::1`);
    assert.equal(places.taken, 90);
    for (let i = 0; i < 10; i++) assert.ok(take('192.0.2.1'), `place ${i}`);
    assert.equal(places.taken, 100);
  });

  test('go from whoever has most to whoever has fewer, the oldest first, until all have the same', () => {
    const { places, lost, take, fill } = openPlaces({ total: 20, perNetwork: 9, perSite: 9 });
    assert.deepEqual([fill('192.0.2.1'), fill('192.0.2.2')], [9, 9]);
    for (let i = 0; i < 6; i++) assert.ok(take('192.0.2.3', 'third'), `place ${i}`);
    assert.deepEqual(lost, ['192.0.2.1 0', '192.0.2.2 0', '192.0.2.1 1', '192.0.2.2 1', '192.0.2.1 2', '192.0.2.2 2']);
    assert.equal(take('192.0.2.3'), undefined);
    assert.equal(places.taken, 18);
  });

  test('are free again when they are given back, once', () => {
    const { places, take } = openPlaces({ total: 2, perNetwork: 2, perSite: 2 });
    const [one, two] = [take('2001:db8::1'), take('2001:db8::2')];
    assert.ok(one && two);
    assert.equal(take('2001:db8::3'), undefined);
    places.leave(one);
    places.leave(one);
    assert.equal(places.taken, 1);
    assert.ok(take('2001:db8::3'));
    assert.equal(take('2001:db8::4'), undefined);
  });
});

test('a prefix does not fill the gateway: others get in, also when it was full before', () => {
  const admission = new Admission({ total: 2000, perAddress: 100 });
  const enter = (address: string) => admission.enter(address, { evict: () => {} });
  for (let i = 0; i < 2000; i++) enter(`2001:db8:1:1::${i.toString(16)}`);
  assert.ok(enter('192.0.2.1'));
  // Twenty sites, each with all it may have.
  for (let i = 0; i < 20 * 400; i++) enter(`2001:db8:${(i % 20) + 100}:${((i / 20) | 0) % 16}::1`);
  for (let i = 0; i < 50; i++) assert.ok(enter(`2001:db8:${i + 500}::1`), `newcomer ${i}`);
  assert.ok(enter('192.0.2.2'));
});

test('logins by SSH: of those that wait, one of the site with most goes, not whoever came first', () => {
  const ended: string[] = [];
  const admission = new SshAdmission({ waiting: 8, waitingPerAddress: 4 });
  const admit = (address: string) => admission.admit(address, () => ended.push(address));
  assert.equal(typeof admit('192.0.2.1'), 'object');
  for (let i = 0; i < 9; i++) assert.equal(typeof admit(`2001:db8:1:${i}::1`), 'object');
  assert.deepEqual(ended, ['2001:db8:1:0::1', '2001:db8:1:1::1']);
  // A second budget for the /48, whatever the network.
  const site = new SshAdmission({ waiting: 100, waitingPerAddress: 2 });
  const answers = Array.from({ length: 9 }, (_, i) => site.admit(`2001:db8:1:${i}::1`, () => {}));
  assert.deepEqual(
    answers.map((answer) => (typeof answer === 'string' ? answer : 'in')),
    [...Array<string>(8).fill('in'), 'crowded'],
  );
});

const isTrusted = () => true;
const from = (address: string, line = 'GET / HTTP/1.1', more = '') =>
  `${line}\r\nHost: a.test\r\nX-Forwarded-For: ${address}\r\n${more}\r\n`;
const UPGRADE = 'Connection: Upgrade\r\nUpgrade: x\r\n';

describe('an origin', () => {
  test('has as much room for requests when many of its connections were upgraded, which have a bound of their own', async (t) => {
    const port = await rawOrigin(t, (socket) => {
      socket.on('data', (bytes) => {
        const isUpgrade = bytes.toString('latin1').includes('Upgrade: x');
        socket.write(
          isUpgrade
            ? 'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n'
            : 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok',
        );
      });
    });
    const limits = { maxPerOrigin: 2, maxPerClient: 2, maxLong: 10, maxLongPerClient: 5 };
    const proxy = await openProxy(t, port, { limits, isTrusted });
    for (let i = 0; i < 5; i++)
      await (await rawClient(t, proxy.port, from('192.0.2.1', 'GET /ws HTTP/1.1', UPGRADE))).sees(/ 101 /);
    await (await rawClient(t, proxy.port, from('192.0.2.1', 'GET /ws HTTP/1.1', UPGRADE))).sees(/^HTTP\/1.1 503 /);
    await (await rawClient(t, proxy.port, from('192.0.2.1'))).sees(/ok$/);
    await (await rawClient(t, proxy.port, from('192.0.2.2', 'GET /ws HTTP/1.1', UPGRADE))).sees(/ 101 /);
    await (await rawClient(t, proxy.port, from('192.0.2.2'))).sees(/ok$/);
  });

  test('that two clients have filled takes a third one’s request; one of theirs that waits longest is told to come again', async (t) => {
    const port = await rawOrigin(t, (socket) => {
      socket.on('data', (bytes) => {
        if (bytes.toString('latin1').includes('GET /now'))
          socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok');
      });
    });
    const proxy = await openProxy(t, port, { limits: { maxPerOrigin: 6, maxPerClient: 3 }, isTrusted });
    const clients = [];
    for (const address of ['192.0.2.1', '192.0.2.2', '192.0.2.1', '192.0.2.2', '192.0.2.1', '192.0.2.2'])
      clients.push(await rawClient(t, proxy.port, from(address)));
    await until(() => proxy.upstreams.counts()[0]?.connections === 6, { what: 'the origin is full' });
    await (await rawClient(t, proxy.port, from('192.0.2.3', 'GET /now HTTP/1.1'))).sees(/ok$/);
    await clients[0]?.sees(/^HTTP\/1.1 503 [\s\S]*Retry-After: 1\r\n/);
    assert.deepEqual(
      clients.slice(1).map((client) => client.text()),
      ['', '', '', '', ''],
    );
  });
});

describe('a service of the platform', () => {
  /** An origin that says what body it got. */
  const echo = (asked: string[]) => (socket: import('node:net').Socket) => {
    let text = '';
    socket.on('data', (bytes) => {
      if (text === '') asked.push(bytes.toString('latin1').split(' ', 2)[1] ?? '');
      text += bytes.toString('latin1');
      const body = text.slice(text.indexOf('\r\n\r\n') + 4);
      if (!body.endsWith('END') && !body.endsWith('END\r\n0\r\n\r\n')) return;
      text = '';
      socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
    });
  };
  const service = (port: number) => (request: ProxyRequest) => ({
    forward: { host: '127.0.0.1', port },
    target: request.target,
    isService: true,
  });

  test('is not asked before a short body is there, however it comes; one that never comes holds nothing there', async (t) => {
    const asked: string[] = [];
    const port = await rawOrigin(t, echo(asked));
    const proxy = await openProxy(t, service(port), { timeouts: { headMs: 1500 }, limits: { maxPerService: 1 } });
    const post = (path: string, more: string) => `POST ${path} HTTP/1.1\r\nHost: a.test\r\n${more}\r\n`;
    const never = await rawClient(t, proxy.port, `${post('/never', 'Content-Length: 9\r\n')}abc`);
    const never2 = await rawClient(t, proxy.port, post('/never', 'Transfer-Encoding: chunked\r\n'));
    const left = await rawClient(t, proxy.port, `${post('/left', 'Content-Length: 9\r\n')}abc`);
    left.socket.end();
    assert.equal(await left.ended(), '');

    const whole = await rawClient(t, proxy.port, `${post('/whole', 'Content-Length: 6\r\n')}abcEND`);
    await whole.sees(/ 200 OK[\s\S]*abcEND$/);
    const late = await rawClient(t, proxy.port, `${post('/late', 'Content-Length: 6\r\n')}ab`);
    late.send('c');
    const slow = await rawClient(t, proxy.port, `${post('/slow', 'Content-Length: 6\r\n')}a`);
    slow.send('bc');
    late.send('END');
    await late.sees(/ 200 OK[\s\S]*abcEND$/);
    slow.send('END');
    await slow.sees(/ 200 OK[\s\S]*abcEND$/);
    const chunked = await rawClient(t, proxy.port, `${post('/chunked', 'Transfer-Encoding: chunked\r\n')}3\r\nabc\r\n`);
    chunked.send('3\r\nEND\r\n0\r\n\r\n');
    await chunked.sees(/ 200 OK[\s\S]*END\r\n0\r\n\r\n$/);
    const asks = await rawClient(
      t,
      proxy.port,
      post('/asks', 'Content-Length: 6\r\nExpect: 100-continue\r\nConnection: close\r\n'),
    );
    await asks.sees(/^HTTP\/1.1 100 Continue\r\n\r\n$/);
    asks.send('abcEND');
    assert.equal((await asks.ended()).match(/100 Continue/g)?.length, 1);
    // What comes behind a body waits for its turn.
    const two = `${post('/one', 'Content-Length: 6\r\n')}abcEND${post('/two', 'Content-Length: 6\r\n')}xyzEND`;
    await (await rawClient(t, proxy.port, two)).sees(/abcEND[\s\S]*xyzEND$/);

    await never.sees(/^HTTP\/1.1 408 /);
    await never2.sees(/^HTTP\/1.1 408 /);
    assert.deepEqual([...new Set(asked)].sort(), ['/asks', '/chunked', '/late', '/one', '/slow', '/two', '/whole']);
  });

  test('gets a long body as it comes, and what is no chunk is refused', async (t) => {
    const asked: string[] = [];
    const port = await rawOrigin(t, echo(asked));
    const proxy = await openProxy(t, service(port));
    const long = await rawClient(
      t,
      proxy.port,
      `POST /long HTTP/1.1\r\nHost: a.test\r\nContent-Length: 100003\r\n\r\n`,
    );
    long.send('x'.repeat(20_000));
    await until(() => asked.length === 1, { what: 'the origin is asked' });
    long.send(`${'x'.repeat(80_000)}END`);
    await long.sees(/ 200 OK[\s\S]*xEND$/);
    const bad = 'POST /bad HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\nnonsense\r\n';
    await (await rawClient(t, proxy.port, bad)).sees(/^HTTP\/1.1 400 /);
  });
});

test('a port of a container that cannot be opened is told of once, and opened when it can be', async (t) => {
  const taken = await rawOrigin(t, () => {});
  const warned: { port?: number }[] = [];
  const listeners = await GatewayListeners.open({
    host: '127.0.0.1',
    ports: { http: 0, https: 0, ssh: 0 },
    ssh: { serve: (socket) => void socket.destroy(), close: async () => {} },
    log: { ...quiet, warn: (fields) => void warned.push(fields) },
    onAccess: () => {},
    decider: {
      decide: () => ({ reply: { status: 200, body: 'ok' } }),
      decideName: () => 'refuse',
      adopt: () => () => {},
      clients: { add: () => {}, remove: () => {} },
    },
    certificates: { platform: { context: createSecureContext() } },
    retryMs: 50,
  });
  t.after(() => listeners.close(0));
  const own = listeners.ports.https;
  const blocked = await freePort();
  const blocker = createServer().listen(blocked, '127.0.0.1');
  await once(blocker, 'listening');
  for (let i = 0; i < 3; i++) await listeners.listenOn(new Set([taken, own, blocked]));
  assert.deepEqual(
    warned.map(({ port }) => port),
    [taken, own, blocked],
  );
  blocker.close();
  await once(blocker, 'close');
  await until(
    async () =>
      (await rawClient(t, blocked, 'GET / HTTP/1.1\r\nHost: a.test\r\n\r\n')
        .then((client) => client.sees(/ok$/))
        .catch(() => undefined)) !== undefined,
    { what: 'the port is open' },
  );
  assert.equal(warned.length, 3);
});
