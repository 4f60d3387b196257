/** Wires of both kinds, joined in every combination: bytes, backpressure, half-closes and ends are those of the two connections. */
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { describe, type TestContext, test } from 'node:test';
import { Admission } from '../../transports/gateway/tcp/admission.ts';
import { dial } from '../../transports/gateway/tcp/dial.ts';
import { listenWires } from '../../transports/gateway/tcp/listen.ts';
import { splice } from '../../transports/gateway/tcp/splice.ts';
import { internals } from '../../transports/wire/handles.ts';
import type { Wire } from '../../transports/wire/wire.ts';
import { usesHandles, useWires } from '../../transports/wire/wires.ts';
import { rawOrigin } from '../support/gateway/proxy.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { until } from '../support/until.ts';

failOnLeaks();

const KINDS = ['handle', 'stream'] as const;

interface Joined {
  readonly client: Socket;
  readonly origin: Socket;
  readonly near: Wire;
  readonly far: Wire;
  readonly ended: readonly [number, number][];
}

/** A client and an origin, and between them two wires of these kinds. */
async function join(t: TestContext, near: 'handle' | 'stream', far: 'handle' | 'stream'): Promise<Joined> {
  const ended: [number, number][] = [];
  const origins: Socket[] = [];
  const port = await rawOrigin(t, (socket) => origins.push(socket.pause()));
  const pairs: { near: Wire; far: Wire }[] = [];
  const wires: Wire[] = [];
  useWires(near);
  const admission = new Admission();
  const listener = await listenWires('127.0.0.1', 0, admission, (wire) => {
    wires.push(wire);
    useWires(far);
    dial('127.0.0.1', port, {
      onOpen: (to) => {
        pairs.push({ near: wire, far: to });
        wires.push(to);
        splice(wire, to, { idleMs: 60_000, onEnd: (a, b) => ended.push([a, b]) });
      },
      onError: (error) => assert.fail(error),
      onClosed: () => {},
    });
  });
  const client = connect({ port: listener.port, host: '127.0.0.1', allowHalfOpen: true });
  client.on('error', () => {});
  t.after(async () => {
    useWires('handle');
    // A listener is closed once its connections are, and a client that has not read to the end keeps its own open.
    client.destroy();
    for (const wire of wires) wire.destroy();
    await listener.close();
  });
  await once(client, 'connect');
  await until(() => pairs.length === 1 && origins.length === 1, { what: 'both sides are there' });
  const [pair] = pairs;
  const [origin] = origins;
  assert.ok(pair && origin);
  return { client, origin, ...pair, ended };
}

const hashOf = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex');

/** All that comes until the end, read in starts and stops. */
async function readSlowly(socket: Socket): Promise<string> {
  const hash = createHash('sha256');
  let reads = 0;
  // Not destroyed at the end: it may still be sending.
  for await (const chunk of socket.iterator({ destroyOnReturn: false })) {
    hash.update(chunk);
    if (++reads % 16 === 0) await new Promise((resolve) => setImmediate(resolve));
  }
  return hash.digest('hex');
}

for (const near of KINDS) {
  for (const far of KINDS) {
    describe(`a ${near} joined to a ${far}`, () => {
      test('passes much in both directions at once, whole, and then the ends', async (t) => {
        const { client, origin, ended } = await join(t, near, far);
        const [up, down] = [randomBytes(9_000_001), randomBytes(24_000_007)];
        client.end(up);
        origin.end(down);
        const [atOrigin, atClient] = await Promise.all([readSlowly(origin), readSlowly(client)]);
        assert.deepEqual([atOrigin, atClient], [hashOf(up), hashOf(down)]);
        await until(() => ended.length === 1, { what: 'both are closed' });
        assert.deepEqual(ended, [[up.length, down.length]]);
      });

      test('passes a half-close on, and what the other side says after it', async (t) => {
        const { client, origin, ended } = await join(t, near, far);
        client.end('question');
        origin.resume();
        await once(origin, 'end');
        origin.end('answer');
        let heard = '';
        client.setEncoding('latin1').on('data', (text: string) => {
          heard += text;
        });
        await once(client, 'end');
        assert.equal(heard, 'answer');
        await until(() => ended.length === 1, { what: 'both are closed' });
      });

      test('does not read ahead of a side that does not read', async (t) => {
        const { client, origin, near: wire } = await join(t, near, far);
        client.write(Buffer.alloc(64 << 20));
        let before = -1;
        await until(
          () => {
            const still = wire.bytesRead === before && wire.bytesRead > 0;
            before = wire.bytesRead;
            return still;
          },
          { what: 'nothing moves any more', everyMs: 100 },
        );
        assert.ok(wire.bytesRead < 32 << 20, `${wire.bytesRead}`);
        origin.resume();
        await until(() => wire.bytesRead === 64 << 20, { what: 'all of it has passed' });
      });

      test('ends both when one is reset', async (t) => {
        const { client, origin, ended } = await join(t, near, far);
        origin.resume();
        client.resetAndDestroy();
        await until(() => ended.length === 1, { what: 'both are closed' });
      });
    });
  }
}

test('a wire that is made a socket again has the rest, and its place is free when that closes', async (t) => {
  for (const kind of KINDS) {
    useWires(kind);
    t.after(() => useWires('handle'));
    const admission = new Admission({ total: 1 });
    const wires: Wire[] = [];
    const listener = await listenWires('127.0.0.1', 0, admission, (wire) => wires.push(wire));
    const client = connect(listener.port, '127.0.0.1').on('error', () => {});
    await until(() => wires.length === 1, { what: 'the connection' });
    const socket = wires[0]?.toSocket();
    assert.ok(socket);
    const nobody = { evict: () => {} };
    assert.equal(admission.enter('192.0.2.1', nobody), undefined);
    socket.end('bye');
    const [text] = await once(client, 'data');
    assert.equal(String(text), 'bye');
    client.destroy();
    wires[0]?.destroy();
    await until(() => admission.enter('192.0.2.1', nobody), { what: 'the place is free' });
    await listener.close();
  }
});

test('what is written between cork and uncork arrives in its order, one text alone or many pieces, on several wires at once', async (t) => {
  for (const kind of KINDS) {
    const { near, client, origin, far } = await join(t, kind, kind);
    let [atClient, atOrigin] = ['', ''];
    client.setEncoding('latin1').on('data', (text) => {
      atClient += text;
    });
    origin
      .resume()
      .setEncoding('latin1')
      .on('data', (text) => {
        atOrigin += text;
      });
    const long = 'y'.repeat(20_000);
    const writes: ((wire: Wire) => void)[] = [
      (wire) => wire.write('one\xe9'),
      (wire) => [wire.write('first,'), wire.write('second')],
      (wire) => [wire.write('text,'), wire.write(Buffer.from('bytes,')), wire.write('text')],
      (wire) => [wire.write(Buffer.from('bytes,')), wire.write('text')],
      (wire) => [wire.write('head,'), wire.writeStable(Buffer.from(long)), wire.write(',tail')],
      (wire) => [wire.write(long), wire.write('after')],
      (wire) => [wire.write(''), wire.write('after nothing')],
      () => undefined,
    ];
    for (const write of writes) {
      near.cork();
      write(near);
      near.uncork();
    }
    // Each in the middle of what the other writes; the last texts are sent by what ends their wires.
    near.cork();
    far.cork();
    for (const n of [1, 2, 3]) for (const wire of [near, far]) wire.write(`<${n}>`);
    near.uncork();
    far.uncork();
    near.cork();
    near.write('goodbye');
    near.end();
    near.uncork();
    const all = `one\xe9first,secondtext,bytes,textbytes,texthead,${long},tail${long}afterafter nothing<1><2><3>goodbye`;
    await until(() => atClient.length >= all.length && atOrigin.length >= 9, { what: 'all arrives' });
    assert.equal(atClient, all);
    assert.equal(atOrigin, '<1><2><3>');
    far.cork();
    far.write('nobody gets this');
    far.destroy();
    far.uncork();
    client.destroy();
  }
});

test('a connection that cannot be opened is an error, whatever the address', async () => {
  for (const kind of KINDS) {
    useWires(kind);
    for (const host of ['127.0.0.1', '::1', 'localhost']) {
      const told: string[] = [];
      dial(host, 1, {
        onOpen: () => told.push('open'),
        onError: () => told.push('error'),
        onClosed: () => told.push('closed'),
      });
      assert.deepEqual(told, []);
      await until(() => told.length === 2, { what: 'both are told' });
      assert.deepEqual(told, ['error', 'closed'], `${kind} ${host}`);
    }
  }
  useWires('handle');
});

test('handles are used where they are known', () => assert.equal(usesHandles(), internals !== undefined));
