/** Requests that come back to the gateway that sent them on (RFC 8586). */
import assert from 'node:assert/strict';
import { request as httpRequest } from 'node:http';
import { describe, test } from 'node:test';
import { LoopGuard, MOST_PASSES } from '../../transports/gateway/h1/loop-detection.ts';
import { httpOrigin, openProxy, rawClient } from '../support/gateway/proxy.ts';
import { exchange } from '../support/gateway/raw-exchange.ts';
import { failOnLeaks } from '../support/leaks.ts';

failOnLeaks();

const get = (host: string, ...fields: string[]) =>
  `GET / HTTP/1.1\r\nHost: ${host}\r\n${fields.map((field) => `${field}\r\n`).join('')}Connection: close\r\n\r\n`;

describe('a request that comes back', () => {
  test('from a container that leads its host back to the gateway is ended at its second coming', async (t) => {
    let forwarded = 0;
    const ports: number[] = [];
    // As a reverse proxy in a container is: it sends everything on, with the fields as they came.
    const origin = await httpOrigin(t, (incoming, response) => {
      forwarded++;
      const onward = httpRequest(
        { host: '127.0.0.1', port: ports[0], path: incoming.url, headers: incoming.headers, agent: false },
        (answer) => {
          response.writeHead(answer.statusCode ?? 0);
          answer.pipe(response);
        },
      );
      onward.on('error', () => response.destroy()).end();
    });
    const { port, log } = await openProxy(t, origin, { loop: new LoopGuard('troupe-abcdefghijkl') });
    ports.push(port);
    const answer = await exchange(port, get('loop.example.com'));
    assert.match(answer, /^HTTP\/1\.1 508 Loop Detected\r\n/);
    assert.match(answer, /sends it back here/);
    assert.equal(forwarded, 1);
    assert.deepEqual(log.map(({ status }) => status).sort(), [508, 508]);
  });

  test('for another host is no loop, as often as reverse proxies lead to one another, but not for ever', async (t) => {
    const seen: (string | undefined)[] = [];
    const origin = await httpOrigin(t, (incoming, response) => {
      const value = incoming.headers['cdn-loop'];
      seen.push(Array.isArray(value) ? value.join(', ') : value);
      response.end('here');
    });
    const { port } = await openProxy(t, origin, { loop: new LoopGuard('troupe-abcdefghijkl') });
    assert.match(await exchange(port, get('a.example.com')), /^HTTP\/1\.1 200 /);
    assert.deepEqual(seen, ['troupe-abcdefghijkl;host=a.example.com']);
    // What other networks said stays, wherever they wrote it, and whatever `Connection` names.
    assert.match(
      await exchange(
        port,
        get('b.example.com', 'CDN-Loop: other; x="1"', `CDN-Loop: ${seen[0]}`, 'Connection: cdn-loop'),
      ),
      /^HTTP\/1\.1 200 /,
    );
    assert.equal(
      seen[1],
      'other; x="1", troupe-abcdefghijkl;host=a.example.com, troupe-abcdefghijkl;host=b.example.com',
    );
    const passes = Array.from({ length: MOST_PASSES }, (_, n) => `troupe-abcdefghijkl;host=h${n}.example.com`);
    assert.match(await exchange(port, get('c.example.com', `CDN-Loop: ${passes.slice(1).join(',')}`)), / 200 /);
    assert.match(await exchange(port, get('c.example.com', `CDN-Loop: ${passes.join(' ,')}`)), / 508 /);
    // Another platform's mark is nobody's business here.
    assert.match(
      await exchange(port, get('c.example.com', 'CDN-Loop: troupe-otherothersx;host=c.example.com')),
      / 200 /,
    );
  });

  test('is found in every host that HTTP knows, and its body is not waited for', async (t) => {
    const origin = await httpOrigin(t, (_incoming, response) => response.end('here'));
    const { port } = await openProxy(t, origin, { loop: new LoopGuard('troupe-abcdefghijkl') });
    for (const host of ['[::1]', '127.0.0.1', 'UPPER.Example.com.'])
      for (const [marks, status] of [
        [[], 200],
        [
          [
            `CDN-Loop: ${new LoopGuard('troupe-abcdefghijkl').line(host.toLowerCase().replace(/\.$/, '')).slice(10, -2)}`,
          ],
          508,
        ],
      ] as const)
        assert.match(await exchange(port, get(host, ...marks)), new RegExp(` ${status} `), host);
    const client = await rawClient(
      t,
      port,
      'POST / HTTP/1.1\r\nHost: a.test\r\nCDN-Loop: troupe-abcdefghijkl;host=a.test\r\nContent-Length: 1000000\r\n\r\n',
    );
    assert.match(await client.ended(), /^HTTP\/1\.1 508 [\s\S]*Connection: close/);
  });
});
