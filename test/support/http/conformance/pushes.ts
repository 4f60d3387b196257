import assert from 'node:assert/strict';
import { it } from 'node:test';
import type { ByteSink, ByteSource } from '../../../../proto/ports/http.ts';
import { until } from '../../until.ts';
import { type Adapter, head, serve, settles, url, wire } from '../client.ts';

const OTHER = { status: 204, headers: [] };
const GET = head('GET / HTTP/1.1', 'Host: x');

/** A source that tells what became of it. */
class Source implements ByteSource {
  sink: ByteSink | undefined;
  ends = 0;
  onOpen: (sink: ByteSink) => void = () => {};
  onDrain: (sink: ByteSink) => void = () => {};

  open(sink: ByteSink): void {
    this.sink = sink;
    this.onOpen(sink);
  }

  drain(): void {
    if (this.sink !== undefined) this.onDrain(this.sink);
  }

  closed(): void {
    this.ends += 1;
  }
}

/** What a pushed reply becomes on the wire. */
export function pushes(adapter: Adapter): void {
  const open = async (t: Parameters<typeof wire>[0], source: Source) => {
    const server = await serve(t, adapter, {
      onRequest: async () => ({ status: 200, headers: [['x-a', 'b']], source }),
    });
    return { server, client: await wire(t, server) };
  };

  it('pushes chunks as they come, ends once, and keeps the connection', async (t) => {
    const source = new Source();
    source.onOpen = (sink) => sink.write(Buffer.from('first'));
    const { client } = await open(t, source);
    assert.match(await client.send(GET).sees(/first/), /^HTTP\/1\.1 200 OK\r\n[\s\S]*x-a: b\r\n/i);
    source.sink?.write(Buffer.from('second'));
    await client.sees(/second/);
    source.sink?.end();
    await client.sees(/0\r\n\r\n$/);
    assert.equal(source.ends, 1);
    source.sink?.end();
    assert.equal(source.sink?.write(Buffer.from('late')), false);
    assert.equal(source.ends, 1);
    await client.send(GET).sees(/0\r\n\r\nHTTP\/1\.1 200 OK[\s\S]*first/);
  });

  it('ends the source of a client that leaves while the rest of its request is read', async (t) => {
    const source = new Source();
    let asked = 0;
    const server = await serve(t, adapter, {
      onRequest: () => {
        asked += 1;
        return { status: 200, headers: [], source };
      },
    });
    const client = await wire(t, server);
    // Answered, but nothing is sent before the body has come.
    client.send(`${head('GET / HTTP/1.1', 'Host: x', 'Content-Length: 2')}1`);
    await until(() => asked === 1);
    client.socket.destroy();
    await until(async () => source.ends === 1, { what: 'the source is told' });
  });

  it('sends the head alone for HEAD, and for a push that ends without a byte, and ends the source', async (t) => {
    const source = new Source();
    source.onOpen = (sink) => sink.end();
    const { client } = await open(t, source);
    await client.send(GET).sees(/0\r\n\r\n$/);
    assert.equal(source.ends, 1);
    const unopened = new Source();
    const other = await open(t, unopened);
    await other.client.send(head('HEAD / HTTP/1.1', 'Host: x')).sees(/x-a: b\r\n[\s\S]*\r\n\r\n$/i);
    assert.deepEqual([unopened.ends, unopened.sink], [1, undefined]);
  });

  it('tells a push to wait while the client reads slowly, when there is room again, and when it leaves', async (t) => {
    let written = 0;
    const source = new Source();
    const fill = (sink: ByteSink) => {
      while (sink.write(Buffer.alloc(64 * 1024))) written += 1;
      written += 1;
    };
    source.onOpen = fill;
    source.onDrain = fill;
    const { client } = await open(t, source);
    client.socket.pause();
    client.send(GET);
    await settles(() => written);
    assert.ok(written < 1000);
    const before = written;
    client.socket.resume();
    await until(() => written > before + 10);
    client.socket.destroy();
    await until(() => source.ends === 1);
    assert.equal(source.sink?.write(Buffer.from('late')), false);
    source.sink?.end();
    assert.equal(source.ends, 1);
  });

  it('ends the reply of a source that throws when there is room again, tells of it, and serves on', async (t) => {
    const faults: unknown[] = [];
    const source = new Source();
    const fill = (sink: ByteSink) => {
      while (sink.write(Buffer.alloc(64 * 1024)));
    };
    source.onOpen = fill;
    source.onDrain = () => {
      throw new Error('no room for room');
    };
    const server = await serve(t, adapter, {
      onFault: (error) => faults.push(error),
      onRequest: async (r) => (r.path === '/' ? { status: 200, headers: [], source } : { status: 204, headers: [] }),
    });
    const client = await wire(t, server);
    client.socket.pause();
    client.send(GET);
    await until(() => source.sink !== undefined);
    client.socket.resume();
    await client.ends();
    assert.equal(source.ends, 1);
    assert.match(String(faults), /^Error: no room for room$/);
    await (await wire(t, server)).send(head('GET /next HTTP/1.1', 'Host: x')).sees(/^HTTP\/1\.1 204 /);
  });

  it('is not hurt by a source that throws when it is told of its end, and tells of it', async (t) => {
    const faults: unknown[] = [];
    const source = new Source();
    source.closed = () => {
      throw new Error('no end');
    };
    source.onOpen = (sink) => {
      sink.write(Buffer.from('all of it'));
      sink.end();
    };
    const onFault = (error: unknown) => faults.push(error);
    const server = await serve(t, adapter, {
      onFault,
      onRequest: async () => ({ status: 200, headers: [], source }),
    });
    const client = await wire(t, server);
    await client.send(GET).sees(/all of it[\s\S]*0\r\n\r\n$/);
    await client.send(GET).sees(/0\r\n\r\nHTTP[\s\S]*0\r\n\r\n$/);
    assert.equal(String(faults), 'Error: no end,Error: no end');
  });

  it('answers 500 for a push that fails before its first byte, and the next request', async (t) => {
    for (const isLater of [false, true]) {
      const source = new Source();
      if (!isLater) source.onOpen = (sink) => sink.fail();
      const server = await serve(t, adapter, {
        onRequest: async (r) => (r.path === '/' ? { status: 200, headers: [['x-a', 'b']], source } : OTHER),
      });
      const client = await wire(t, server);
      client.send(GET);
      if (isLater) {
        await until(() => source.sink !== undefined);
        source.sink?.fail();
      }
      const said = await client.sees(/^HTTP\/1\.1 500 [\s\S]*\r\n\r\n/);
      assert.doesNotMatch(said, /x-a|chunked/i);
      assert.equal(source.ends, 1);
      source.sink?.fail();
      source.sink?.end();
      assert.equal(source.sink?.write(Buffer.from('late')), false);
      assert.equal(source.ends, 1);
      await (await wire(t, server)).send(head('GET /next HTTP/1.1', 'Host: x')).sees(/^HTTP\/1\.1 204 /);
    }
  });

  it('cuts the connection of a push that fails in the middle: nobody takes it for whole', async (t) => {
    const source = new Source();
    source.onOpen = (sink) => sink.write(Buffer.from('half of it'));
    const { client } = await open(t, source);
    await client.send(GET).sees(/half of it/);
    source.sink?.fail();
    const said = await client.ends();
    assert.match(said, /half of it(?:\r\n)?$/);
    assert.equal(source.ends, 1);
    source.sink?.fail();
    assert.equal(source.sink?.write(Buffer.from('late')), false);
    assert.equal(source.ends, 1);
    // A client that knows chunks says so.
    const second = new Source();
    second.onOpen = (sink) => {
      sink.write(Buffer.from('half'));
      setImmediate(() => sink.fail());
    };
    const other = await open(t, second);
    await assert.rejects(async () => (await fetch(url(other.server))).text());
    assert.equal(second.ends, 1);
  });

  it('answers 500 when a push cannot begin', async (t) => {
    const source = new Source();
    source.onOpen = () => {
      throw new Error('no');
    };
    const { client } = await open(t, source);
    await client.send(GET).sees(/^HTTP\/1\.1 500 /);
    assert.equal(source.ends, 1);
  });
}
