import assert from 'node:assert/strict';
import { it } from 'node:test';
import type { HttpServerOptions, SocketWatch, Watched } from '../../../../proto/ports/http.ts';
import type { Cleanup } from '../../temp.ts';
import { until } from '../../until.ts';
import { type Adapter, serve } from '../client.ts';
import { dial, Recorder } from '../socket-client.ts';

/** A server whose sockets all report to one recorder, and a client connected to it. */
async function pair(t: Cleanup, adapter: Adapter, options: Partial<HttpServerOptions> = {}, client = {}) {
  const recorder = new Recorder();
  const server = await serve(t, adapter, { onUpgrade: () => ({ accept: recorder }), ...options });
  const ws = await dial(t, server, '/', client);
  const socket = await until(() => recorder.socket);
  return { recorder, server, ws, socket };
}

/** A WebSocket's life after 101. */
export function sockets(adapter: Adapter): void {
  it('carries text and bytes both ways, in order, and gives the owner its own copy', async (t) => {
    const { recorder, ws, socket } = await pair(t, adapter);
    recorder.onMessage = (frame) => socket.send('text' in frame ? frame.text : frame.binary);
    ws.send('grüße');
    ws.send('');
    ws.send(Buffer.from([1, 2, 3]));
    ws.send('end');
    await until(() => ws.texts.includes('end'));
    assert.deepEqual(ws.texts, ['grüße', '', 'end']);
    assert.equal(ws.bytes, 13);
    assert.deepEqual(recorder.frames[2], { binary: new Uint8Array([1, 2, 3]) });
    assert.equal(socket.buffered(), 0);
  });

  it('sends from within open', async (t) => {
    const recorder = new Recorder();
    recorder.onOpen = (socket) => socket.send('welcome');
    const server = await serve(t, adapter, { onUpgrade: () => ({ accept: recorder }) });
    const ws = await dial(t, server);
    await until(() => ws.texts[0] === 'welcome');
  });

  it('closes from within open', async (t) => {
    const recorder = new Recorder();
    recorder.onOpen = (socket) => socket.close(1008, 'connection limit reached');
    const server = await serve(t, adapter, { onUpgrade: () => ({ accept: recorder }) });
    const ws = await dial(t, server);
    await until(() => ws.ending);
    assert.deepEqual(ws.ending, [1008, 'connection limit reached']);
    assert.deepEqual(recorder.closes, [[1008, 'connection limit reached']]);
  });

  it('tells who watches before the owner, and of the end once, whoever brought it about', async (t) => {
    const told: string[] = [];
    let watched: Watched | undefined;
    const opened: SocketWatch = {
      opened: () => assert.fail('it is open already'),
      closed: (socket) => void told.push(socket === watched ? 'closed' : 'another closed'),
    };
    const watch: SocketWatch = {
      opened: (socket) => {
        watched = socket;
        told.push('opened');
        return opened;
      },
      closed: () => assert.fail('it was replaced'),
    };
    const owner = () => {
      const recorder = new Recorder();
      recorder.onOpen = () => told.push('owner');
      return recorder;
    };
    const recorders = [owner(), owner(), owner()];
    let next = 0;
    const accept = () => recorders[next++] ?? assert.fail('one too many');
    const server = await serve(t, adapter, { onUpgrade: () => ({ accept: accept(), watch }) });
    const ends = [
      (ws: Awaited<ReturnType<typeof dial>>) => ws.close(1000, ''),
      () => recorders[1]?.socket?.close(1000, 'done'),
      () => watched?.close(1008, 'token revoked'),
    ];
    for (const [index, end] of ends.entries()) {
      const ws = await dial(t, server);
      const recorder = await until(() => (recorders[index]?.socket ? recorders[index] : undefined));
      end(ws);
      await until(() => recorder.closes.length > 0 && ws.ending);
      assert.deepEqual(told.splice(0), ['opened', 'owner', 'closed']);
    }
    assert.deepEqual(recorders[2]?.closes, [[1008, 'token revoked']]);
  });

  it('tells each side the code and reason the other closed with, once', async (t) => {
    const one = await pair(t, adapter);
    one.ws.close(4001, 'client is done');
    await until(() => one.recorder.closes.length > 0 && one.ws.ending);
    assert.deepEqual(one.recorder.closes, [[4001, 'client is done']]);
    const two = await pair(t, adapter);
    two.socket.close(1000, 'container stopped');
    assert.deepEqual(two.recorder.closes, [[1000, 'container stopped']]);
    await until(() => two.ws.ending);
    assert.deepEqual(two.ws.ending, [1000, 'container stopped']);
    assert.equal(two.recorder.closes.length, 1);
  });

  it('tells the owner when the connection breaks', async (t) => {
    const { recorder, ws } = await pair(t, adapter);
    ws.terminate();
    await until(() => recorder.closes.length > 0);
    assert.deepEqual(recorder.closes, [[1006, '']]);
  });

  it('ignores every call after the end, and delivers nothing more', async (t) => {
    const { recorder, ws, socket } = await pair(t, adapter);
    recorder.onMessage = () => socket.close(1000, '');
    for (let i = 0; i < 10; i++) ws.send(`${i}`);
    await until(() => ws.ending);
    assert.equal(recorder.frames.length, 1);
    assert.equal(socket.send('late'), false);
    assert.equal(socket.buffered(), 0);
    socket.pause();
    socket.resume();
    socket.close(1001, 'again');
    assert.deepEqual(recorder.closes, [[1000, '']]);
  });

  it('closes when text is not UTF-8', async (t) => {
    const { recorder, ws } = await pair(t, adapter);
    ws.send(Buffer.from([0xc3, 0x28]), { binary: false });
    await until(() => recorder.closes.length > 0 && ws.ending);
    assert.deepEqual(recorder.frames, []);
    assert.equal(ws.ending?.[0], adapter === 'uws' ? 1006 : 1007);
  });

  it('takes a message of the greatest size and closes on a larger one', async (t) => {
    const { recorder, ws } = await pair(t, adapter, { maxMessageBytes: 1000 });
    ws.send(Buffer.alloc(1000));
    await until(() => recorder.frames.length === 1);
    ws.send(Buffer.alloc(1001));
    await until(() => recorder.closes.length > 0 && ws.ending);
    assert.equal(recorder.frames.length, 1);
    // uWebSockets.js drops the connection without a closing frame.
    assert.equal(ws.ending?.[0], adapter === 'uws' ? 1006 : 1009);
  });

  it('closes with 1011 when its owner throws, and goes on with the others', async (t) => {
    const { recorder, ws, server } = await pair(t, adapter);
    recorder.onMessage = (frame) => {
      if ('text' in frame && frame.text === 'boom') throw new Error('x');
    };
    const other = await dial(t, server);
    ws.send('boom');
    await until(() => recorder.closes.length > 0);
    assert.equal(recorder.closes[0]?.[0], 1011);
    other.send('fine');
    await until(() => recorder.frames.length === 2);
  });

  it('says when bytes wait for a slow reader, and when they are gone', async (t) => {
    const { recorder, ws, socket } = await pair(t, adapter, { maxBufferedBytes: 50_000_000 });
    ws.pause();
    const chunk = Buffer.alloc(60_000);
    let sent = 1;
    while (socket.send(chunk)) sent += 1;
    assert.ok(socket.buffered() > 0);
    assert.equal(recorder.drains, 0);
    ws.resume();
    await until(() => recorder.drains === 1 && ws.bytes === sent * chunk.length);
    assert.equal(socket.buffered(), 0);
    assert.equal(socket.send('on'), true);
  });

  it('closes a reader that is too slow with 1013, holding no more than the bound', async (t) => {
    const { recorder, ws, socket } = await pair(t, adapter, { maxBufferedBytes: 200_000 });
    ws.pause();
    let most = 0;
    for (let i = 0; i < 10_000 && recorder.closes.length === 0; i++) {
      socket.send(Buffer.alloc(50_000));
      most = Math.max(most, socket.buffered());
    }
    assert.deepEqual(recorder.closes, [[1013, 'too slow']]);
    assert.ok(most <= 200_000 + 64, `${most} bytes were held`);
    assert.equal(socket.send('more'), false);
    ws.resume();
    await until(() => ws.ending);
    assert.deepEqual(ws.ending, [1013, 'too slow']);
  });

  it('refuses a frame larger than the bound', async (t) => {
    const { recorder, socket } = await pair(t, adapter, { maxBufferedBytes: 1000 });
    assert.equal(socket.send('x'.repeat(1001)), false);
    assert.deepEqual(recorder.closes, [[1013, 'too slow']]);
  });

  it('pings, keeps a peer that answers and cuts one that does not', async (t) => {
    const recorders = [new Recorder(), new Recorder()];
    const server = await serve(t, adapter, {
      pingMs: 80,
      onUpgrade: (r) => ({ accept: (r.path === '/mute' ? recorders[0] : recorders[1]) ?? assert.fail() }),
    });
    let pings = 0;
    const alive = await dial(t, server, '/alive');
    alive.on('ping', () => {
      pings += 1;
    });
    await dial(t, server, '/mute', { autoPong: false });
    await until(() => recorders[0]?.closes.length === 1);
    assert.equal(recorders[0]?.closes[0]?.[0], 1006);
    const before = pings;
    await until(() => pings > before + 3);
    assert.deepEqual(recorders[1]?.closes, []);
  });

  it('stops reading a paused peer where it can, and loses nothing', async (t) => {
    const { recorder, ws, socket } = await pair(t, adapter);
    socket.pause();
    for (let i = 0; i < 100; i++) ws.send(`${i}`);
    if (adapter !== 'uws') {
      await until(() => ws.bufferedAmount === 0);
      assert.ok(recorder.frames.length < 100);
    }
    socket.resume();
    await until(() => recorder.frames.length === 100);
    assert.deepEqual(recorder.frames[99], { text: '99' });
  });
}
