import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { it } from 'node:test';
import { withTimeout } from '../../../../lib/waiting.ts';
import { ListenError } from '../../../../transports/http/index.ts';
import { freePort } from '../../temp.ts';
import { until } from '../../until.ts';
import { type Adapter, gate, head, serve, url, wire } from '../client.ts';
import { dial, Recorder } from '../socket-client.ts';

const GET = head('GET / HTTP/1.1', 'Host: x');

/** Whether nobody takes a connection there. */
function refuses(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1')
      .on('error', () => resolve(true))
      .on('connect', () => {
        socket.destroy();
        resolve(false);
      });
  });
}

/** Opening and closing a server. */
export function closing(adapter: Adapter): void {
  it('says which adapter it is and where it listens', async (t) => {
    const server = await serve(t, adapter, {});
    assert.equal(server.adapter, adapter);
    assert.ok(server.port > 0);
  });

  it('rejects when the address is taken', async (t) => {
    // A port asked for by number is one that uWebSockets.js would share.
    const { port } = await serve(t, adapter, { port: await freePort() });
    await assert.rejects(
      serve(t, adapter, { port }),
      (error) => error instanceof ListenError && error.code === 'address_unavailable',
    );
  });

  it('lets a running request finish, ends its connection and accepts no new one', async (t) => {
    const go = gate();
    const asked = gate();
    const server = await serve(t, adapter, {
      onRequest: async () => {
        asked.open();
        await go.opened;
        return { status: 200, headers: [], body: 'done' };
      },
    });
    const client = (await wire(t, server)).send(GET);
    await asked.opened;
    const { port } = server;
    let closed = false;
    const closing = server.close(10_000).then(() => {
      closed = true;
    });
    assert.equal(await refuses(port), true);
    assert.equal(closed, false);
    go.open();
    await closing;
    assert.match(await client.ends(), /connection: close[\s\S]*done$/i);
  });

  it('cuts what is not finished within the grace and aborts it', async (t) => {
    const aborted = gate();
    const asked = gate();
    const server = await serve(t, adapter, {
      onRequest: (r) => {
        r.signal.addEventListener('abort', () => aborted.open());
        asked.open();
        return new Promise(() => undefined);
      },
    });
    const client = (await wire(t, server)).send(GET);
    await asked.opened;
    await server.close(20);
    await aborted.opened;
    assert.equal(await client.ends(), '');
  });

  it('answers what comes over open connections while it lingers, and ends each with its answer', async (t) => {
    const server = await serve(t, adapter, { onRequest: () => ({ status: 200, headers: [], body: 'ok' }) });
    const [used, unused] = [(await wire(t, server)).send(GET), await wire(t, server)];
    await used.sees(/ok$/);
    // Its first request would find it not there yet.
    unused.send(GET);
    await unused.sees(/ok$/);
    let isClosed = false;
    const closing = server.close(1000, 60_000).then(() => {
      isClosed = true;
    });
    await until(() => refuses(server.port), { what: 'nothing new is taken' });
    used.send(GET);
    assert.match(await used.ends(), /ok[\s\S]*connection: close[\s\S]*ok$/i);
    assert.equal(isClosed, false);
    unused.send(GET);
    await unused.ends();
    // Long before the time is over: nobody is left.
    await closing;
  });

  it('ends connections that are still idle once it has lingered', async (t) => {
    const server = await serve(t, adapter, { onRequest: () => ({ status: 200, headers: [], body: 'ok' }) });
    const used = (await wire(t, server)).send(GET);
    await used.sees(/ok$/);
    await server.close(1000, 50);
    assert.match(await used.ends(), /ok$/);
  });

  it('ends idle connections', async (t) => {
    const server = await serve(t, adapter, { onRequest: () => ({ status: 200, headers: [], body: 'ok' }) });
    const used = (await wire(t, server)).send(GET);
    const unused = await wire(t, server);
    await used.sees(/ok$/);
    await server.close(1000);
    await Promise.all([used.ends(), unused.ends()]);
  });

  it('closes WebSockets with 1001, and upgrades that are still undecided', async (t) => {
    const recorder = new Recorder();
    const never = new Recorder();
    const asked = gate();
    const server = await serve(t, adapter, {
      onUpgrade: async (r) => {
        if (r.path === '/') return { accept: recorder };
        asked.open();
        await new Promise((resolve) => r.signal.addEventListener('abort', resolve));
        return { accept: never };
      },
    });
    const ws = await dial(t, server);
    const pending = dial(t, server, '/undecided').catch(() => 'refused');
    await asked.opened;
    await server.close(50);
    await until(() => ws.ending);
    assert.equal(ws.ending?.[0], 1001);
    assert.equal(recorder.closes[0]?.[0], 1001);
    assert.equal(recorder.closes.length, 1);
    assert.equal(await withTimeout(pending, 5000, () => 'hangs'), 'refused');
    assert.equal(never.socket, undefined);
  });

  it('closes once, however often it is asked, and frees the port', async (t) => {
    const port = await freePort();
    const server = await serve(t, adapter, { port, onRequest: () => ({ status: 200, headers: [], body: 'first' }) });
    await fetch(url(server)).then((r) => r.text());
    await Promise.all([server.close(100), server.close(100)]);
    await server.close(0);
    const again = await serve(t, adapter, { port, onRequest: () => ({ status: 200, headers: [], body: 'second' }) });
    assert.equal(await (await fetch(url(again))).text(), 'second');
  });
}
