import assert from 'node:assert/strict';
import { it } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { BodyError, type HttpRequest } from '../../../../proto/ports/http.ts';
import { until } from '../../until.ts';
import { type Adapter, gate, head, serve, settles, url, wire } from '../client.ts';

const MiB = 1024 * 1024;

/** Answers with the body's size and the sum of its bytes; a BodyError becomes 413. */
const measure = (limit: number) => async (r: HttpRequest) => {
  try {
    const body = await r.body(limit);
    return { status: 200, headers: [], body: `${body.length} ${body.reduce((sum, byte) => sum + byte, 0)}` };
  } catch (error) {
    assert.ok(error instanceof BodyError);
    return { status: 413, headers: [], body: error.code };
  }
};

/** Reading a request's body. */
export function bodies(adapter: Adapter): void {
  it('reads bodies of every kind, also after awaiting something else', async (t) => {
    const server = await serve(t, adapter, {
      onRequest: async (r) => {
        if (r.path === '/later') {
          await turn();
          await turn();
        }
        return await measure(2 * MiB)(r);
      },
    });
    for (const path of ['/now', '/later']) {
      const post = async (body: Uint8Array) => (await fetch(url(server, path), { method: 'POST', body })).text();
      assert.equal(await post(new Uint8Array(0)), '0 0');
      assert.equal(await post(new Uint8Array(5).fill(2)), '5 10');
      assert.equal(await post(new Uint8Array(MiB + 7).fill(1)), `${MiB + 7} ${MiB + 7}`);
      assert.equal(await (await fetch(url(server, path))).text(), '0 0');
    }
  });

  it('reads a chunked body, chunk sizes and pieces as they come', async (t) => {
    const server = await serve(t, adapter, { onRequest: measure(100) });
    const client = (await wire(t, server)).send(head('POST / HTTP/1.1', 'Host: x', 'Transfer-Encoding: chunked'));
    for (const piece of ['1\r\n', '\x01\r\n3', '\r\n\x01\x01', '\x01\r\n', '0\r\n\r\n']) {
      client.send(piece);
      await turn();
    }
    await client.sees(/4 4$/);
  });

  it('reads the body of a GET', async (t) => {
    const server = await serve(t, adapter, { onRequest: measure(100) });
    const client = (await wire(t, server)).send(`${head('GET / HTTP/1.1', 'Host: x', 'Content-Length: 2')}\x01\x02`);
    await client.sees(/2 3$/);
  });

  it('invites a client that expects 100-continue', async (t) => {
    const server = await serve(t, adapter, { onRequest: measure(100) });
    const client = await wire(t, server);
    client.send(head('POST / HTTP/1.1', 'Host: x', 'Content-Length: 2', 'Expect: 100-continue'));
    await client.sees(/^HTTP\/1\.1 100 Continue\r\n/);
    await client.send('\x01\x01').sees(/2 2$/);
  });

  it('rejects a body over the limit, announced or not, and the client reads the answer', async (t) => {
    const server = await serve(t, adapter, { onRequest: measure(1000) });
    const stream = () =>
      new ReadableStream({
        start(controller) {
          for (let i = 0; i < 30; i++) controller.enqueue(new Uint8Array(100_000));
          controller.close();
        },
      });
    const announced = await fetch(url(server), { method: 'POST', body: new Uint8Array(3 * MiB) });
    assert.deepEqual([announced.status, await announced.text()], [413, 'too_large']);
    const init = { method: 'POST', body: stream(), duplex: 'half' as const };
    const chunked = await fetch(url(server), init);
    assert.deepEqual([chunked.status, await chunked.text()], [413, 'too_large']);
  });

  it('serves the next request on a connection whose body was refused', async (t) => {
    const server = await serve(t, adapter, { onRequest: measure(10) });
    const client = (await wire(t, server)).send(head('POST / HTTP/1.1', 'Host: x', 'Content-Length: 50'));
    client.send('x'.repeat(50));
    await client.sees(/too_large$/);
    client.send(`${head('POST / HTTP/1.1', 'Host: x', 'Content-Length: 1')}\x01`);
    await client.sees(/1 1$/);
  });

  it('cuts off a client that sends far more than is worth discarding', async (t) => {
    const server = await serve(t, adapter, { onRequest: measure(10) });
    const client = (await wire(t, server)).send(head('POST / HTTP/1.1', 'Host: x', `Content-Length: ${100 * MiB}`));
    assert.match(await client.ends(), /413 Payload Too Large[\s\S]*connection: close[\s\S]*too_large$/i);
  });

  it('answers a request whose body nobody read, and the next one', async (t) => {
    const server = await serve(t, adapter, {
      onRequest: async (r) => ({ status: 401, headers: [], body: r.path }),
    });
    const client = await wire(t, server);
    client.send(head('POST /one HTTP/1.1', 'Host: x', 'Content-Length: 200000') + 'x'.repeat(200_000));
    await client.sees(/\/one$/);
    await client.send(head('GET /two HTTP/1.1', 'Host: x')).sees(/\/two$/);
  });

  it('holds at most about a megabyte before the handler asks, and loses nothing', async (t) => {
    const go = gate();
    const server = await serve(t, adapter, {
      onRequest: async (r) => {
        await go.opened;
        return await measure(20 * MiB)(r);
      },
    });
    const client = await wire(t, server);
    client.send(head('POST / HTTP/1.1', 'Host: x', `Content-Length: ${16 * MiB}`));
    client.socket.write(Buffer.alloc(16 * MiB, 1));
    // The sender stands still once the kernel's buffers are full.
    await settles(() => client.socket.bytesWritten - client.socket.writableLength);
    assert.ok(client.socket.writableLength > 0, 'the sender had to wait');
    go.open();
    await client.sees(new RegExp(`${16 * MiB} ${16 * MiB}$`));
  });

  it('aborts the signal and the body when the client leaves', async (t) => {
    const events: string[] = [];
    const server = await serve(t, adapter, {
      onRequest: async (r) => {
        r.signal.addEventListener('abort', () => events.push('signal'));
        await r.body(100).catch((error: unknown) => {
          assert.ok(error instanceof BodyError);
          events.push(error.code);
        });
        return { status: 200, headers: [] };
      },
    });
    const client = (await wire(t, server)).send(`${head('POST / HTTP/1.1', 'Host: x', 'Content-Length: 5')}ab`);
    await turn();
    client.socket.destroy();
    await until(() => events.length === 2);
    assert.deepEqual(events.sort(), ['aborted', 'signal']);
  });

  it('leaves the signal alone when the reply was sent', async (t) => {
    let signal: AbortSignal | undefined;
    const server = await serve(t, adapter, {
      onRequest: async (r) => {
        signal = r.signal;
        return { status: 200, headers: [], body: 'ok' };
      },
    });
    const client = (await wire(t, server)).send(head('GET / HTTP/1.1', 'Host: x'));
    await client.sees(/ok$/);
    client.socket.destroy();
    await until(() => client.closed);
    await server.close(0);
    assert.equal(signal?.aborted, false);
  });

  it('reads a body once', async (t) => {
    const server = await serve(t, adapter, {
      onRequest: async (r) => {
        await r.body(10);
        return await r.body(10).then(
          () => ({ status: 200, headers: [] }),
          () => ({ status: 409, headers: [] }),
        );
      },
    });
    assert.equal((await fetch(url(server), { method: 'POST', body: 'abc' })).status, 409);
  });
}
