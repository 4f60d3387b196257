import assert from 'node:assert/strict';
import { it } from 'node:test';
import { BodyError, type HttpRequest } from '../../../../proto/ports/http.ts';
import { until } from '../../until.ts';
import { type Adapter, gate, head, serve, settles, url, wire } from '../client.ts';

const MiB = 1024 * 1024;

/** Reads a body as it comes: its size and the sum of its bytes. Rejects with what broke it off. */
async function measured(r: HttpRequest): Promise<string> {
  let [size, sum] = [0, 0];
  for await (const chunk of r.stream()) {
    assert.ok(Buffer.isBuffer(chunk));
    size += chunk.length;
    for (const byte of chunk) sum += byte;
  }
  return `${size} ${sum}`;
}

const measure = async (r: HttpRequest) => ({ status: 200, headers: [], body: await measured(r) });

/** Reading a request's body as it comes. */
export function streams(adapter: Adapter): void {
  it('gives bodies of every kind, however they come, and the next one on the same connection', async (t) => {
    const server = await serve(t, adapter, { onRequest: measure });
    const post = async (body: Uint8Array) => (await fetch(url(server), { method: 'POST', body })).text();
    assert.equal(await post(new Uint8Array(0)), '0 0');
    assert.equal(await post(new Uint8Array(5).fill(2)), '5 10');
    assert.equal(await post(new Uint8Array(9 * MiB).fill(1)), `${9 * MiB} ${9 * MiB}`);
    assert.equal(await (await fetch(url(server))).text(), '0 0');
    const client = (await wire(t, server)).send(head('POST / HTTP/1.1', 'Host: x', 'Transfer-Encoding: chunked'));
    for (const piece of ['1\r\n\x01\r\n', '3\r\n\x01\x01', '\x01\r\n', '0\r\n\r\n']) client.send(piece);
    await client.sees(/4 4$/);
    client.send(`${head('POST / HTTP/1.1', 'Host: x', 'Content-Length: 1')}\x07`);
    await client.sees(/1 7$/);
  });

  it('gives what has come before the rest does', async (t) => {
    const seen: string[] = [];
    const server = await serve(t, adapter, {
      onRequest: async (r) => {
        for await (const chunk of r.stream()) seen.push(String(chunk));
        return { status: 200, headers: [], body: 'all' };
      },
    });
    const client = (await wire(t, server)).send(head('POST / HTTP/1.1', 'Host: x', 'Content-Length: 6'));
    client.send('abc');
    await until(() => seen.join('') === 'abc', { what: 'the first part' });
    client.send('def');
    await client.sees(/all$/);
    assert.equal(seen.join(''), 'abcdef');
  });

  it('invites a client that expects 100-continue', async (t) => {
    const server = await serve(t, adapter, { onRequest: measure });
    const client = await wire(t, server);
    client.send(head('POST / HTTP/1.1', 'Host: x', 'Content-Length: 2', 'Expect: 100-continue'));
    await client.sees(/^HTTP\/1\.1 100 Continue\r\n/);
    await client.send('\x01\x01').sees(/2 2$/);
  });

  it('lets the sender wait while nobody reads, and loses nothing', async (t) => {
    const go = gate();
    const server = await serve(t, adapter, {
      onRequest: async (r) => {
        const stream = r.stream();
        await go.opened;
        let size = 0;
        for await (const chunk of stream) size += chunk.length;
        return { status: 200, headers: [], body: `${size} bytes` };
      },
    });
    const client = await wire(t, server);
    client.send(head('POST / HTTP/1.1', 'Host: x', `Content-Length: ${24 * MiB}`));
    client.socket.write(Buffer.alloc(24 * MiB, 1));
    await settles(() => client.socket.bytesWritten - client.socket.writableLength);
    assert.ok(client.socket.writableLength > 0, 'the sender had to wait');
    go.open();
    await client.sees(new RegExp(`${24 * MiB} bytes$`));
  });

  it('breaks off when the client leaves, whether it is read or not', async (t) => {
    const events: string[] = [];
    let asked = 0;
    const server = await serve(t, adapter, {
      onRequest: async (r) => {
        r.signal.addEventListener('abort', () => events.push('signal'));
        const stream = r.stream();
        asked++;
        stream.on('error', (error) => events.push(error instanceof BodyError ? error.code : String(error)));
        if (r.path === '/read') stream.resume();
        await new Promise<void>((resolve) => stream.once('close', resolve));
        return { status: 200, headers: [] };
      },
    });
    for (const path of ['/read', '/unread']) {
      [events.length, asked] = [0, 0];
      const client = await wire(t, server);
      client.send(`${head(`POST ${path} HTTP/1.1`, 'Host: x', 'Content-Length: 5')}ab`);
      await until(() => asked === 1, { what: 'the request' });
      client.socket.destroy();
      await until(() => events.length >= 2, { what: `${path} hears of it` });
      assert.deepEqual(events.toSorted(), ['aborted', 'signal'], path);
    }
  });

  it('breaks off when the request is answered, and the client reads the answer', async (t) => {
    const errors: unknown[] = [];
    const server = await serve(t, adapter, {
      onRequest: (r) => {
        if (r.path === '/next') return { status: 204, headers: [] };
        r.stream().on('error', (error) => errors.push(error));
        return { status: 403, headers: [], body: 'no' };
      },
    });
    const client = await wire(t, server);
    client.send(`${head('POST / HTTP/1.1', 'Host: x', 'Content-Length: 9')}abc`);
    await until(() => errors.length === 1, { what: 'the stream breaks off' });
    assert.ok(errors[0] instanceof BodyError && errors[0].code === 'aborted');
    client.send('defghi');
    await client.sees(/403 Forbidden[\s\S]*no$/);
    await client.send(head('GET /next HTTP/1.1', 'Host: x')).sees(/HTTP\/1\.1 204 /);
  });

  it('lets its reader give up, and answers all the same', async (t) => {
    const server = await serve(t, adapter, {
      onRequest: async (r) => {
        for await (const _ of r.stream()) break;
        return { status: 413, headers: [], body: 'enough' };
      },
    });
    const client = await wire(t, server);
    client.send(`${head('POST / HTTP/1.1', 'Host: x', 'Content-Length: 9')}abc`);
    client.send('defghi');
    await client.sees(/ 413 [\s\S]*enough$/);
  });

  it('reads a body once, whichever way', async (t) => {
    const server = await serve(t, adapter, {
      onRequest: async (r) => {
        if (r.path === '/stream-first') {
          r.stream().resume();
          await assert.rejects(r.body(10), TypeError);
        } else await r.body(10);
        assert.throws(() => r.stream(), TypeError);
        return { status: 200, headers: [], body: 'once' };
      },
    });
    for (const path of ['/stream-first', '/body-first'])
      assert.equal(await (await fetch(url(server, path), { method: 'POST', body: 'abc' })).text(), 'once', path);
  });
}
