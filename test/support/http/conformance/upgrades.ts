import assert from 'node:assert/strict';
import { it } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import type { UpgradeAnswer } from '../../../../proto/ports/http.ts';
import { until } from '../../until.ts';
import { type Adapter, gate, head, serve, wire } from '../client.ts';
import { dial, Recorder } from '../socket-client.ts';

const KEY = 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==';
const VERSION = 'Sec-WebSocket-Version: 13';
const UPGRADE = ['Host: x', 'Upgrade: websocket', 'Connection: keep-alive, Upgrade'];

/** From the upgrade request to 101, or to a refusal. */
export function upgrades(adapter: Adapter): void {
  it('shows the request to the upgrade handler, at once and after awaiting', async (t) => {
    for (const wait of [false, true]) {
      const recorder = new Recorder();
      let saw: unknown;
      const server = await serve(t, adapter, {
        onUpgrade: async (r) => {
          if (wait) await turn();
          saw = [r.method, r.path, r.query, r.header('cookie'), r.remoteAddress, (await r.body(1)).length];
          return { accept: recorder };
        },
      });
      const client = await dial(t, server, '/a%20b?c=d', { headers: { cookie: 'e=f' } });
      assert.deepEqual(saw, ['GET', '/a%20b', 'c=d', 'e=f', '127.0.0.1', 0]);
      assert.equal(client.protocol, '');
      await until(() => recorder.socket);
    }
  });

  it('answers with the accept key of RFC 6455 and the first protocol offered', async (t) => {
    const server = await serve(t, adapter, { onUpgrade: () => ({ accept: new Recorder() }) });
    const client = await wire(t, server);
    client.send(head('GET / HTTP/1.1', ...UPGRADE, KEY, VERSION, 'Sec-WebSocket-Protocol: one, two'));
    const text = await client.sees(/\r\n\r\n/);
    assert.match(text, /^HTTP\/1\.1 101 /);
    assert.match(text, /sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK\+xOo=\r\n/i);
    assert.match(text, /sec-websocket-protocol: one\r\n/i);
  });

  it('delivers frames that follow the request at once', async (t) => {
    const recorder = new Recorder();
    const go = gate();
    const server = await serve(t, adapter, {
      onUpgrade: async () => {
        await go.opened;
        return { accept: recorder };
      },
    });
    const client = await wire(t, server);
    client.send(head('GET / HTTP/1.1', ...UPGRADE, KEY, VERSION));
    await turn();
    go.open();
    await client.sees(/\r\n\r\n/);
    client.socket.write(Buffer.from([0x81, 0x82, 0, 0, 0, 0, 0x68, 0x69]));
    await until(() => recorder.frames.length === 1);
    assert.deepEqual(recorder.frames, [{ text: 'hi' }]);
  });

  it('refuses with a plain reply, whatever it is, before 101', async (t) => {
    for (const status of [401, 403, 404, 409]) {
      for (const wait of [false, true]) {
        const answer: UpgradeAnswer = { refuse: { status, headers: [['x-why', 'because']], body: 'no' } };
        const server = await serve(t, adapter, { onUpgrade: () => (wait ? turn(answer) : answer) });
        const client = (await wire(t, server)).send(head('GET / HTTP/1.1', ...UPGRADE, KEY, VERSION));
        const text = await client.sees(/no$/);
        assert.match(text, new RegExp(`^HTTP/1\\.1 ${status} `));
        assert.match(text, /x-why: because/i);
      }
    }
  });

  it('turns a handler that throws, and a bad refusal, into a 500', async (t) => {
    const handlers: (() => UpgradeAnswer | Promise<UpgradeAnswer>)[] = [
      () => {
        throw new Error('x');
      },
      () => Promise.reject(new Error('x')),
      () => ({ refuse: { status: 400, headers: [['a', 'b\r\nc: d']] } }),
    ];
    for (const onUpgrade of handlers) {
      const server = await serve(t, adapter, { onUpgrade });
      const client = (await wire(t, server)).send(head('GET / HTTP/1.1', ...UPGRADE, KEY, VERSION));
      assert.match(await client.sees(/"internal"\}$/), /^HTTP\/1\.1 500 /);
    }
  });

  const malformed: Record<string, [lines: string[], status: number]> = {
    'without a key': [[...UPGRADE, VERSION], 400],
    'with a short key': [[...UPGRADE, VERSION, 'Sec-WebSocket-Key: abc'], 400],
    'with a key that is not base64': [[...UPGRADE, VERSION, 'Sec-WebSocket-Key: !!!!!!!!!!!!!!!!!!!!!!!!'], 400],
    'of version 8': [[...UPGRADE, KEY, 'Sec-WebSocket-Version: 8'], 426],
    'without a version': [[...UPGRADE, KEY], 426],
    'without Connection: Upgrade': [['Host: x', 'Upgrade: websocket', KEY, VERSION], 400],
    'with a body': [[...UPGRADE, KEY, VERSION, 'Content-Length: 3'], 400],
  };
  for (const [what, [lines, status]] of Object.entries(malformed)) {
    it(`refuses an upgrade ${what}`, async (t) => {
      const fail = () => assert.fail('no handler is asked');
      const server = await serve(t, adapter, { onUpgrade: fail, onRequest: fail });
      const text = await (await wire(t, server)).send(head('GET / HTTP/1.1', ...lines)).sees(/\}$/);
      assert.match(text, new RegExp(`^HTTP/1\\.1 ${status} `));
      if (status === 426) assert.match(text, /sec-websocket-version: 13\r\n/i);
    });
  }

  it('hands a request that asks for no WebSocket to the request handler', async (t) => {
    const server = await serve(t, adapter, {
      onRequest: async (r) => ({ status: 200, headers: [], body: `plain ${r.path}` }),
      onUpgrade: () => assert.fail('not an upgrade'),
    });
    const cases = [
      head('GET /a HTTP/1.1', 'Host: x'),
      head('GET /a HTTP/1.1', 'Host: x', KEY, VERSION),
      head('GET /a HTTP/1.1', 'Host: x', 'Connection: Upgrade, HTTP2-Settings', 'Upgrade: h2c'),
      head('POST /a HTTP/1.1', ...UPGRADE, KEY, VERSION),
    ];
    for (const request of cases) {
      assert.match(await (await wire(t, server)).send(request).sees(/plain \/a$/), /^HTTP\/1\.1 200 OK/);
    }
  });

  it('opens nothing for a client that left before the answer', async (t) => {
    const recorder = new Recorder();
    const asked = gate();
    const left = gate();
    const go = gate();
    const server = await serve(t, adapter, {
      onUpgrade: async (r) => {
        if (r.path === '/alive') return { refuse: { status: 404, headers: [], body: 'alive' } };
        r.signal.addEventListener('abort', () => left.open());
        asked.open();
        await go.opened;
        return { accept: recorder };
      },
    });
    const client = (await wire(t, server)).send(head('GET / HTTP/1.1', ...UPGRADE, KEY, VERSION));
    await asked.opened;
    client.socket.destroy();
    await left.opened;
    go.open();
    await (await wire(t, server)).send(head('GET /alive HTTP/1.1', ...UPGRADE, KEY, VERSION)).sees(/alive$/);
    assert.equal(recorder.socket, undefined);
    assert.deepEqual(recorder.closes, []);
  });
}
