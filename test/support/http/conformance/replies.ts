import assert from 'node:assert/strict';
import { once } from 'node:events';
import { it } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import type { HttpReply } from '../../../../proto/ports/http.ts';
import { type Adapter, gate, head, serve, url, wire } from '../client.ts';

const GET = head('GET / HTTP/1.1', 'Host: x');

/** Both ways a handler can answer. */
const ways = (reply: () => HttpReply) => [
  reply,
  async () => {
    await turn();
    return reply();
  },
];

/** What a handler's answer becomes on the wire. */
export function replies(adapter: Adapter): void {
  it('sends status text, headers, length and date, and names no software', async (t) => {
    for (const onRequest of ways(() => ({
      status: 418,
      headers: [
        ['X-One', 'a'],
        ['x-two', 'b\tc'],
      ],
      body: 'tëa',
    }))) {
      const server = await serve(t, adapter, { onRequest });
      const text = await (await wire(t, server)).send(GET).sees(/a$/);
      assert.match(text, /^HTTP\/1\.1 418 I'm a Teapot\r\n/);
      assert.match(text, /\r\nx-one: a\r\n/i);
      assert.match(text, /\r\nx-two: b\tc\r\n/i);
      assert.match(text, /\r\ncontent-length: 4\r\n/i);
      assert.match(text, /\r\ndate: \w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT\r\n/i);
      assert.doesNotMatch(text, /uwebsockets|x-powered-by|\r\nserver:/i);
    }
  });

  it('answers HEAD with the head of GET and no body, and keeps the connection', async (t) => {
    for (const onRequest of ways(() => ({ status: 200, headers: [], body: 'hello' }))) {
      const server = await serve(t, adapter, { onRequest });
      const client = (await wire(t, server)).send(head('HEAD / HTTP/1.1', 'Host: x'));
      assert.match(await client.sees(/\r\n\r\n$/), /content-length: 5\r\n/i);
      await client.send(GET).sees(/\r\n\r\nHTTP\/1\.1 200 OK[\s\S]*hello$/);
    }
  });

  it('sends 204 and 304 without body or length', async (t) => {
    for (const status of [204, 304]) {
      const server = await serve(t, adapter, { onRequest: () => ({ status, headers: [], body: 'not sent' }) });
      const client = (await wire(t, server)).send(GET + GET);
      const text = await client.sees(/HTTP\/1\.1[\s\S]*HTTP\/1\.1[\s\S]*\r\n\r\n$/);
      assert.doesNotMatch(text, /content-length|not sent/i);
    }
  });

  const bad: Record<string, () => HttpReply> = {
    'a handler that throws': () => {
      throw new Error('secret reason');
    },
    'a line break in a header value': () => ({ status: 200, headers: [['x-a', 'b\r\nset-cookie: evil=1']] }),
    'a lone line feed in a header value': () => ({ status: 200, headers: [['x-a', 'b\nc']] }),
    'a header name with a break': () => ({ status: 200, headers: [['x-a\r\nevil', 'b']] }),
    'a header value outside ASCII': () => ({ status: 200, headers: [['x-a', 'é']] }),
    'a status that is none': () => ({ status: 99, headers: [] }),
  };
  for (const [what, reply] of Object.entries(bad)) {
    it(`turns ${what} into a bare 500 and goes on`, async (t) => {
      for (const onRequest of ways(reply)) {
        const server = await serve(t, adapter, { onRequest });
        for (let i = 0; i < 2; i++) {
          const response = await fetch(url(server));
          const body = await response.text();
          assert.equal(response.status, 500);
          assert.match(response.headers.get('content-type') ?? '', /^application\/json/);
          assert.equal(JSON.parse(body).code, 'internal');
          assert.doesNotMatch(body, /secret/);
          assert.equal(response.headers.get('set-cookie'), null);
        }
      }
    });
  }

  it('keeps the framing of the message to itself', async (t) => {
    const server = await serve(t, adapter, {
      onRequest: () => ({
        status: 200,
        headers: [
          ['Content-Length', '999'],
          ['transfer-encoding', 'chunked'],
          ['connection', 'upgrade'],
        ],
        body: 'ok',
      }),
    });
    const text = await (await wire(t, server)).send(GET).sees(/ok$/);
    assert.match(text, /content-length: 2\r\n/i);
    assert.doesNotMatch(text, /999|chunked|connection: upgrade/i);
  });

  it('ends the connection when the client asked for that', async (t) => {
    const server = await serve(t, adapter, { onRequest: () => ({ status: 200, headers: [], body: 'bye' }) });
    const client = (await wire(t, server)).send(head('GET / HTTP/1.1', 'Host: x', 'Connection: close'));
    assert.match(await client.ends(), /bye$/);
  });

  it('brings a large body whole to a slow reader', async (t) => {
    const body = Buffer.alloc(20_000_000, 'abcdefghij');
    for (const onRequest of ways(() => ({ status: 200, headers: [], body }))) {
      const server = await serve(t, adapter, { onRequest });
      const client = await wire(t, server);
      client.socket.pause();
      client.send(head('GET / HTTP/1.1', 'Host: x', 'Connection: close'));
      await once(client.socket, 'readable');
      client.socket.resume();
      const text = await client.ends();
      assert.ok(text.endsWith(`\r\n\r\n${body.toString()}`));
    }
  });

  it('writes nothing for a client that left before the answer', async (t) => {
    const go = gate();
    const left = gate();
    const server = await serve(t, adapter, {
      onRequest: async (r) => {
        if (r.path === '/alive') return { status: 200, headers: [], body: 'alive' };
        r.signal.addEventListener('abort', () => left.open());
        await go.opened;
        return { status: 200, headers: [], body: 'late' };
      },
    });
    const client = (await wire(t, server)).send(GET);
    await turn();
    client.socket.destroy();
    await left.opened;
    go.open();
    assert.equal(await (await fetch(url(server, '/alive'))).text(), 'alive');
  });
}
