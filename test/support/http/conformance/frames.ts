import assert from 'node:assert/strict';
import { it } from 'node:test';
import type { HttpServerOptions } from '../../../../proto/ports/http.ts';
import type { Cleanup } from '../../temp.ts';
import { until } from '../../until.ts';
import { type Adapter, head, serve, type Wire, wire } from '../client.ts';
import { dial, Recorder } from '../socket-client.ts';

const HANDSHAKE = [
  'GET / HTTP/1.1',
  'Host: x',
  'Upgrade: websocket',
  'Connection: Upgrade',
  'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==',
  'Sec-WebSocket-Version: 13',
];

const FIN = 0x80;
const [CONTINUATION, TEXT, BINARY, CLOSE, PING] = [0, 1, 2, 8, 9];

/** A client's frame: first byte, payload, and the length it claims, masked with zeros so that the payload stays as it is. */
function frame(first: number, payload: Buffer | string = '', claimed?: bigint, mask = true): Buffer {
  const data = Buffer.from(payload);
  const length = claimed ?? BigInt(data.length);
  const size = length < 126n ? 0 : length < 65_536n ? 2 : 8;
  const start = Buffer.alloc(2 + size + (mask ? 4 : 0));
  start[0] = first;
  start[1] = (mask ? 0x80 : 0) | (size === 0 ? Number(length) : size === 2 ? 126 : 127);
  if (size === 2) start.writeUInt16BE(Number(length), 2);
  if (size === 8) start.writeBigUInt64BE(length, 2);
  return Buffer.concat([start, data]);
}

function closeFrame(code: number, reason: Buffer | string = ''): Buffer {
  return frame(FIN | CLOSE, Buffer.concat([Buffer.of(code >> 8, code & 255), Buffer.from(reason)]));
}

/** An open WebSocket as raw bytes. What the server sends after its 101 is in `received()`. */
async function opened(t: Cleanup, adapter: Adapter, options: Partial<HttpServerOptions> = {}, extra: string[] = []) {
  const recorder = new Recorder();
  const server = await serve(t, adapter, { onUpgrade: () => ({ accept: recorder }), ...options });
  const client = await wire(t, server);
  client.send(head(...HANDSHAKE, ...extra));
  const answer = await client.sees(/\r\n\r\n/);
  await until(() => recorder.socket);
  const received = () => Buffer.from(client.text.slice(client.text.indexOf('\r\n\r\n') + 4), 'latin1');
  return { recorder, server, client, answer, received };
}

/** The close code in the server's last frame; 1006 when it cut the connection without one. */
async function endOf(client: Wire, received: () => Buffer): Promise<number> {
  await client.ends();
  const bytes = received();
  return bytes[0] === (FIN | CLOSE) && (bytes[1] ?? 0) >= 2 ? bytes.readUInt16BE(2) : 1006;
}

/** Frames that no peer may send (RFC 6455), one by one and however they are cut. */
export function frames(adapter: Adapter): void {
  /** uWebSockets.js cuts the connection where ws says why. */
  const code = (said: number) => (adapter === 'uws' ? [1006, said] : [said]);
  const broken: Record<string, [bytes: Buffer[], code: number]> = {
    // uWebSockets.js does not look at the mask bit: it takes the first four bytes for the mask, and what is left makes no sense.
    ...(adapter === 'uws' ? {} : { 'an unmasked frame': [[frame(FIN | TEXT, 'hi', undefined, false)], 1002] }),
    // ws takes it.
    ...(adapter === 'own'
      ? { 'a length that is not in its shortest form': [[Buffer.of(FIN | BINARY, 0xfe, 0, 2, 0, 0, 0, 0, 1, 2)], 1002] }
      : {}),
    'RSV1, a compressed frame that nobody agreed on': [[frame(FIN | 0x40 | TEXT, 'hi')], 1002],
    RSV2: [[frame(FIN | 0x20 | TEXT, 'hi')], 1002],
    RSV3: [[frame(FIN | 0x10 | BINARY, 'hi')], 1002],
    'a reserved opcode': [[frame(FIN | 3, 'hi')], 1002],
    'a reserved control opcode': [[frame(FIN | 11, 'hi')], 1002],
    'a fragmented ping': [[frame(PING, 'hi')], 1002],
    'a fragmented close': [[frame(CLOSE, Buffer.of(3, 232))], 1002],
    'a ping of 126 bytes': [[frame(FIN | PING, 'x'.repeat(126))], 1002],
    'a length with the top bit set': [[frame(FIN | BINARY, 'x', 2n ** 63n + 1n)], 1009],
    'a message of 2 GiB': [[frame(FIN | BINARY, 'x', 2n ** 31n)], 1009],
    'fragments that are too large together': [
      [frame(BINARY, 'x'.repeat(700)), frame(FIN | CONTINUATION, 'x'.repeat(700))],
      1009,
    ],
    'a new message inside another': [[frame(TEXT, 'a'), frame(FIN | TEXT, 'b')], 1002],
    'a continuation of nothing': [[frame(FIN | CONTINUATION, 'a')], 1002],
    'text that is not UTF-8': [[frame(FIN | TEXT, Buffer.of(0xc3, 0x28))], 1007],
    'text that ends within a character': [[frame(TEXT, Buffer.of(0xe2, 0x82)), frame(FIN | CONTINUATION, 'x')], 1007],
    'a surrogate': [[frame(FIN | TEXT, Buffer.of(0xed, 0xa0, 0x80))], 1007],
  };
  for (const [what, [bytes, said]] of Object.entries(broken)) {
    for (const torn of [false, true]) {
      it(`ends a socket that sends ${what}${torn ? ', byte by byte' : ''}, and no other`, async (t) => {
        const { recorder, server, client, received } = await opened(t, adapter, { maxMessageBytes: 1000 });
        const other = await dial(t, server);
        client.socket.setNoDelay(true);
        const all = Buffer.concat(bytes);
        if (torn) for (const byte of all.subarray(0, 20)) client.socket.write(Buffer.of(byte));
        client.socket.write(all.subarray(torn ? 20 : 0));
        assert.ok(code(said).includes(await endOf(client, received)), `${received().toString('latin1')}`);
        await until(() => recorder.closes.length === 1);
        assert.deepEqual(recorder.frames, []);
        other.send('fine');
        await until(() => recorder.frames.length === 1);
      });
    }
  }

  it('never takes an unmasked frame for what it says', async (t) => {
    const { recorder, client } = await opened(t, adapter);
    client.socket.write(frame(FIN | TEXT, 'hello world!', undefined, false));
    client.socket.end(closeFrame(1000));
    await until(() => recorder.closes.length === 1);
    assert.ok(!recorder.frames.some((one) => 'text' in one && one.text.includes('hello')));
  });

  it('puts characters and messages together however they are cut, pings between their parts', async (t) => {
    const { recorder, client, received } = await opened(t, adapter);
    const text = Buffer.from('grüße €😀');
    const parts = [...text].map((byte, i) => frame(i === 0 ? TEXT : CONTINUATION, Buffer.of(byte)));
    client.socket.write(Buffer.concat([...parts, frame(FIN | PING, 'p'), frame(FIN | CONTINUATION)]));
    await until(() => recorder.frames.length === 1);
    assert.deepEqual(recorder.frames, [{ text: text.toString() }]);
    await until(() => received().length === 3);
    assert.deepEqual([...received()], [0x8a, 1, 112]);
  });

  it('survives a million empty continuations', async (t) => {
    const { recorder, client } = await opened(t, adapter);
    const block = Buffer.concat(Array.from({ length: 10_000 }, () => frame(CONTINUATION)));
    client.socket.write(frame(TEXT, 'a'));
    let ended = false;
    client.socket.once('close', () => {
      ended = true;
    });
    const before = process.memoryUsage().rss;
    for (let i = 0; i < 100 && !ended; i++) {
      if (!client.socket.write(block)) await until(() => ended || !client.socket.writableNeedDrain, { everyMs: 1 });
    }
    if (!ended) client.socket.write(frame(FIN | CONTINUATION, 'b'));
    await until(() => ended || recorder.frames.length === 1);
    if (!ended) assert.deepEqual(recorder.frames, [{ text: 'ab' }]);
    assert.ok(process.memoryUsage().rss - before < 200 * 2 ** 20);
  });

  for (const wrong of [0, 999, 1004, 1005, 1006, 1015, 1016, 2999, 5000, 65_535]) {
    it(`takes no close code ${wrong} over`, async (t) => {
      const { recorder, client, received } = await opened(t, adapter);
      client.socket.write(closeFrame(wrong, 'why'));
      const echoed = await endOf(client, received);
      assert.ok(echoed !== wrong || echoed === 1006, `${echoed}`);
      await until(() => recorder.closes.length === 1);
    });
  }

  it('ends on a close of one byte, and on a reason that is not UTF-8', async (t) => {
    for (const bytes of [frame(FIN | CLOSE, 'x'), closeFrame(1000, Buffer.of(0xff))]) {
      const { recorder, client } = await opened(t, adapter);
      client.socket.write(bytes);
      await client.ends();
      await until(() => recorder.closes.length === 1);
      assert.doesNotMatch(recorder.closes[0]?.[1] ?? '', /x/);
    }
  });

  it('answers a flood of pings within bounds, or ends it', async (t) => {
    const { recorder, server, client } = await opened(t, adapter, { maxBufferedBytes: 100_000 });
    const other = await dial(t, server);
    const block = Buffer.concat(Array.from({ length: 1000 }, () => frame(FIN | PING, 'x'.repeat(125))));
    client.socket.pause(); // Never reads a pong.
    const before = process.memoryUsage().rss;
    let ended = false;
    client.socket.once('close', () => {
      ended = true;
    });
    // 125 MB of pings, unless the connection stops taking them.
    for (let i = 0; i < 1000 && !ended && client.socket.writableLength < 2 ** 22; i++) {
      client.socket.write(block);
      if (i % 10 === 0) await new Promise((resolve) => setImmediate(resolve));
    }
    assert.ok(process.memoryUsage().rss - before < 100 * 2 ** 20, 'pongs are held without bound');
    other.send('fine');
    await until(() => recorder.frames.length === 1);
  });

  it('agrees on no compression, whoever offers it', async (t) => {
    const offer = 'Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits, x-webkit-deflate-frame';
    const { answer } = await opened(t, adapter, {}, [offer]);
    assert.doesNotMatch(answer, /extensions/i);
  });

  it('lets in a page of any origin: a token is no cookie, so no other page has one to send', async (t) => {
    for (const origin of ['https://elsewhere.example', 'null', 'http://troupe.localhost']) {
      const { answer } = await opened(t, adapter, {}, [`Origin: ${origin}`]);
      assert.match(answer, /^HTTP\/1\.1 101 /);
    }
  });

  it('sends a batch in few packets, in order, and says when bytes wait', async (t) => {
    const recorder = new Recorder();
    const server = await serve(t, adapter, { onUpgrade: () => ({ accept: recorder }), maxBufferedBytes: 50_000_000 });
    const ws = await dial(t, server);
    const socket = await until(() => recorder.socket);
    let sent = 0;
    assert.equal(
      socket.batch(() => {
        for (; sent < 500; sent++) assert.equal(socket.send(`${sent}`), true);
      }),
      true,
    );
    await until(() => ws.texts.length === 500);
    assert.deepEqual(
      ws.texts,
      Array.from({ length: 500 }, (_, i) => `${i}`),
    );
    ws.pause();
    const line = 'x'.repeat(1000);
    while (
      socket.batch(() => {
        while (socket.send(line)) if (++sent % 100 === 0) return;
        sent++;
      })
    );
    assert.ok(socket.buffered() > 0);
    const { drains } = recorder;
    ws.resume();
    await until(() => recorder.drains === drains + 1);
    await until(() => ws.texts.length === sent);
    socket.close(1000, '');
    assert.equal(
      socket.batch(() => assert.fail('nobody is there')),
      false,
    );
  });
}
