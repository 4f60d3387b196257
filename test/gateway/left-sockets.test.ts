/** WebSockets of a container whose place another took: clients are asked to come again, between two frames. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { Socket } from 'node:net';
import { describe, test } from 'node:test';
import WebSocket, { WebSocketServer } from 'ws';
import { FrameBorders } from '../../transports/gateway/h1/frame-borders.ts';
import { openListeners } from '../support/gateway/listeners.ts';
import { type RawClient, rawClient, rawOrigin } from '../support/gateway/proxy.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { pause } from '../support/pause.ts';
import { type Cleanup, freePort } from '../support/temp.ts';
import { until } from '../support/until.ts';

failOnLeaks();

/** A frame of a server, of `length` bytes that look like heads of others. */
function frame(length: number, opcode = 2): Buffer {
  const payload = Buffer.alloc(length, 0x82);
  if (length < 126) return Buffer.concat([Buffer.from([0x80 | opcode, length]), payload]);
  const head = Buffer.alloc(length < 65_536 ? 4 : 10);
  head[0] = 0x80 | opcode;
  head[1] = length < 65_536 ? 126 : 127;
  if (length < 65_536) head.writeUInt16BE(length, 2);
  else head.writeBigUInt64BE(BigInt(length), 2);
  return Buffer.concat([head, payload]);
}

test('the last border of a piece is found, however the bytes come in pieces', () => {
  const frames = [0, 1, 125, 126, 65_535, 65_536, 70_000, 2, 0, 300].map((length) => frame(length));
  const bytes = Buffer.concat(frames);
  const borders = new Set([0]);
  let end = 0;
  for (const { length } of frames) {
    end += length;
    borders.add(end);
  }
  for (const size of [1, 2, 3, 7, 100, 4096, 65_536, bytes.length]) {
    const followed = new FrameBorders();
    for (let at = 0; at < bytes.length; at += size) {
      const piece = bytes.subarray(at, at + size);
      const places = [...borders].filter((border) => border > at && border <= at + piece.length);
      // Where a piece begins with a frame, that is a place, too.
      const expected = places.at(-1) ?? (borders.has(at) ? at : undefined);
      assert.equal(followed.take(piece), expected === undefined ? -1 : expected - at, `${size} ${at}`);
      assert.equal(followed.isAtBorder, borders.has(at + piece.length));
    }
    assert.equal(followed.hasClosed, false);
    assert.equal(followed.take(frame(2, 8)), 4);
    assert.equal(followed.hasClosed, true);
  }
});

test('many frames in one piece are not followed any more', () => {
  const followed = new FrameBorders();
  assert.equal(followed.take(Buffer.concat(Array.from({ length: 60 }, () => frame(100)))), 60 * 102);
  assert.equal(followed.take(Buffer.concat(Array.from({ length: 600 }, () => frame(100)))), -1);
  assert.deepEqual([followed.isLost, followed.isAtBorder], [true, false]);
});

/** An origin of WebSockets, and the gateway before it. */
async function open(t: Cleanup) {
  const port = await freePort();
  const server = new WebSocketServer({ host: '127.0.0.1', port });
  await once(server, 'listening');
  t.after(() => void server.close());
  const gateway = await openListeners(t, port, { leaveMs: 0 });
  const join = async () => {
    const joined = once(server, 'connection');
    const client = new WebSocket(`ws://127.0.0.1:${gateway.ports.http}/`, { headers: { host: 'a.test' } });
    t.after(() => client.terminate());
    await once(client, 'open');
    const [origin]: WebSocket[] = await joined;
    assert.ok(origin);
    return { client, origin };
  };
  return { ...gateway, join };
}

describe('a WebSocket whose origin is ended soon', () => {
  test('is closed with 1012 for both sides', async (t) => {
    const { join, leaveOrigin } = await open(t);
    const { client, origin } = await join();
    const ends = Promise.all([once(client, 'close'), once(origin, 'close')]);
    leaveOrigin('127.0.0.2');
    client.send('still here');
    assert.equal(String((await once(origin, 'message'))[0]), 'still here');
    leaveOrigin('127.0.0.1');
    assert.deepEqual(
      (await ends).map(([code]) => code),
      [1012, 1012],
    );
  });

  test('is closed after a whole message, however much is under way', async (t) => {
    const { join, leaveOrigin } = await open(t);
    const { client, origin } = await join();
    const end = once(client, 'close');
    let whole = 0;
    client.on('message', (message: Buffer) => {
      assert.equal(message.length, 300_000);
      assert.ok(message.every((byte) => byte === whole % 256));
      whole += 1;
      if (whole === 20) leaveOrigin('127.0.0.1');
    });
    for (let sent = 0; origin.readyState === origin.OPEN && sent < 5000; sent += 1) {
      origin.send(Buffer.alloc(300_000, sent % 256), () => {});
      if (sent % 10 === 9) await new Promise((resolve) => setImmediate(resolve));
    }
    assert.equal((await end)[0], 1012);
    assert.ok(whole >= 20, String(whole));
  });

  test('waits for the rest of a frame, and hears nothing after a Close of its origin', async (t) => {
    const half = frame(100);
    const heads = 'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n';
    const origins: Socket[] = [];
    const port = await rawOrigin(t, (socket) => {
      origins.push(socket);
      socket.once('data', () => socket.write(Buffer.concat([Buffer.from(heads), half.subarray(0, 50)])));
    });
    const { ports, leaveOrigin } = await openListeners(t, port, { leaveMs: 0 });
    const ask = 'GET / HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n';
    const client = await rawClient(t, ports.http, ask);
    const ends = (one: RawClient, ...bytes: Buffer[]) =>
      until(() => one.text().endsWith(Buffer.concat(bytes).toString('latin1')), { what: 'the bytes' });
    const payload = half.subarray(2);
    await ends(client, half.subarray(0, 50));
    leaveOrigin('127.0.0.1');
    await pause(50, 'watch');
    await ends(client, payload.subarray(0, 48));
    origins[0]?.write(half.subarray(50));
    await ends(client, payload, Buffer.from([0x88, 2, 3, 0xf4]));
    const other = await rawClient(t, ports.http, ask);
    await ends(other, half.subarray(0, 50));
    const close = Buffer.from([0x88, 2, 3, 0xe8]);
    origins[1]?.write(Buffer.concat([half.subarray(50), close]));
    await ends(other, payload, close);
    leaveOrigin('127.0.0.1');
    await pause(50, 'watch');
    await ends(other, payload, close);
  });
});
