/** Requests for a container whose program starts again: they wait for it within bounds, and nothing is done twice. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type RequestListener, type Server } from 'node:http';
import { connect, createServer as createRaw } from 'node:net';
import { describe, type TestContext, test } from 'node:test';
import { ResponseCache } from '../../transports/gateway/cache/response-cache.ts';
import { RestartingOrigins, UpstreamError } from '../../transports/gateway/h1/restarting-origins.ts';
import type { UpstreamLimits } from '../../transports/gateway/h1/upstreams.ts';
import { openProxy } from '../support/gateway/proxy.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { turns, until } from '../support/until.ts';

failOnLeaks();

/** A program in a container: it can be ended, and started again on its port. */
async function program(t: TestContext, listener: RequestListener) {
  let port = 0;
  let server: Server | undefined;
  const start = async () => {
    server = createServer(listener).listen(port, '127.0.0.1');
    await once(server, 'listening');
    const address = server.address();
    assert.ok(typeof address === 'object' && address !== null);
    port = address.port;
  };
  /** As SIGKILL does: whatever is under way is cut. */
  const kill = async () => {
    const ended = server;
    server = undefined;
    if (ended === undefined) return;
    ended.closeAllConnections();
    ended.close();
    await once(ended, 'close');
  };
  await start();
  t.after(kill);
  return { start, kill, port };
}

async function behindProxy(
  t: TestContext,
  port: number,
  limits: Partial<UpstreamLimits> = {},
  isContainer = true,
  cache?: ResponseCache,
) {
  const tenant = isContainer ? { tenantOf: ['cloud.test'] } : {};
  const decide = ({ target }: { target: string }) => ({ forward: { host: '127.0.0.1', port }, target, ...tenant });
  const proxy = await openProxy(t, decide, { limits, ...(cache === undefined ? {} : { cache }) });
  const ask = async ({ path = '/', ...init }: RequestInit & { readonly path?: string } = {}) => {
    const answer = await fetch(`http://127.0.0.1:${proxy.port}${path}`, init);
    return { status: answer.status, text: await answer.text(), retry: answer.headers.get('retry-after') };
  };
  return { ...proxy, ask };
}

describe('requests for a container that was just started', () => {
  test('wait for its program, although it took no connection before', async (t) => {
    const app = await program(t, (_request, response) => response.end('up'));
    await app.kill();
    const { ask, upstreams } = await behindProxy(t, app.port);
    assert.equal((await ask()).status, 502);
    upstreams.expect('127.0.0.2');
    assert.equal((await ask()).status, 502, 'another container was started');
    upstreams.expect('127.0.0.1');
    const asked = ask();
    await turns(50);
    await app.start();
    assert.deepEqual(await asked, { status: 200, text: 'up', retry: null });
  });

  test('are told that it does not come, once the time is over', async (t) => {
    const app = await program(t, (_request, response) => response.end('up'));
    await app.kill();
    const { ask, upstreams } = await behindProxy(t, app.port, { holdMs: 300 });
    upstreams.expect('127.0.0.1');
    assert.equal((await ask()).status, 503);
    assert.equal((await ask()).status, 502, 'it was started too long ago');
  });
});

/** A program that takes connections and breaks them off: it is ending, or just beginning. */
async function breaking(t: TestContext, times: number) {
  let count = 0;
  const server = createRaw((socket) => {
    count++;
    const isUp = count > times;
    socket.on('error', () => {});
    socket.once('data', () => {
      if (isUp) socket.end('HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nup');
      else socket.resetAndDestroy();
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => void server.close());
  const address = server.address();
  assert.ok(typeof address === 'object' && address !== null);
  return { port: address.port, count: () => count };
}

describe('requests for a container that is known to start again, and takes connections only to break them off', () => {
  test('wait until it answers, unless they change something', async (t) => {
    const app = await breaking(t, 6);
    const { ask, upstreams } = await behindProxy(t, app.port, { retryMs: 20 });
    upstreams.expect('127.0.0.1');
    assert.equal((await ask({ method: 'POST', body: 'x' })).status, 502);
    assert.equal(app.count(), 1);
    assert.deepEqual(await ask(), { status: 200, text: 'up', retry: null });
    assert.equal(app.count(), 7);
  });

  test('are told so when that goes on for too long, and at the second time where nothing is known', async (t) => {
    const app = await breaking(t, Number.POSITIVE_INFINITY);
    const { ask, upstreams } = await behindProxy(t, app.port, { retryMs: 20, holdMs: 300 });
    assert.equal((await ask()).status, 502);
    assert.equal(app.count(), 2);
    upstreams.expect('127.0.0.1');
    // Even if it is started again and again.
    const again = setInterval(() => upstreams.expect('127.0.0.1'), 50);
    t.after(() => clearInterval(again));
    assert.equal((await ask()).status, 502);
    assert.ok(app.count() > 5, String(app.count()));
  });
});

describe('requests for a container whose program starts again', () => {
  test('are what its kept answers are forgotten by', async (t) => {
    let release = 'one';
    const app = await program(t, (_request, response) => response.end(release));
    const cache = new ResponseCache();
    t.after(() => cache.close());
    const { ask, upstreams } = await behindProxy(t, app.port, {}, true, cache);
    const page = () => ask().then(({ text }) => text);
    assert.deepEqual([await page(), cache.numbers().stored], ['one', 1]);
    await app.kill();
    await until(() => upstreams.counts().every(({ idle }) => idle === 0), { what: 'the gateway saw it end' });
    assert.equal(await page(), 'one', 'it is kept');
    const post = ask({ method: 'POST', body: 'x', path: '/other' });
    await turns(50);
    release = 'two';
    await app.start();
    assert.equal((await post).text, 'two');
    assert.equal(await page(), 'two');
  });

  test('are all answered, and each POST is done once', async (t) => {
    const done: string[] = [];
    const app = await program(t, (request, response) => {
      let body = '';
      request.on('data', (chunk: Buffer) => (body += chunk));
      request.on('end', () => {
        if (request.method === 'POST') done.push(body);
        response.end('ok');
      });
    });
    const { ask, upstreams } = await behindProxy(t, app.port);
    assert.equal((await ask()).text, 'ok');
    const statuses = new Map<number, number>();
    let isOver = false;
    const clients = Array.from({ length: 20 }, async () => {
      while (!isOver) {
        const { status } = await ask();
        statuses.set(status, (statuses.get(status) ?? 0) + 1);
      }
    });
    for (let round = 0; round < 5; round++) {
      const before = statuses.get(200) ?? 0;
      await until(() => (statuses.get(200) ?? 0) > before + 50, { what: 'it answers' });
      await app.kill();
      // Sent while nothing listens, over no connection of before: it waits with its body.
      await until(() => upstreams.counts().every(({ idle }) => idle === 0), { what: 'the gateway saw it end' });
      const post = ask({ method: 'POST', body: `post ${round}` });
      await turns(50);
      await app.start();
      // One that is under way when the program ends has failed, and is not sent again.
      assert.equal((await post).status, 200);
    }
    isOver = true;
    await Promise.all(clients);
    assert.deepEqual([...statuses.keys()], [200]);
    assert.deepEqual(done.sort(), ['post 0', 'post 1', 'post 2', 'post 3', 'post 4']);
  });

  test('are refused when it does not come back, and later ones at once', async (t) => {
    const app = await program(t, (_, response) => response.end('ok'));
    const { ask } = await behindProxy(t, app.port, { holdMs: 300, retryMs: 10 });
    assert.equal((await ask()).status, 200);
    await app.kill();
    const held = await ask();
    assert.deepEqual(held, {
      status: 503,
      text: 'The service behind this address is starting: try again soon.\n',
      retry: '1',
    });
    await until(async () => (await ask()).status === 502, { what: 'it is taken for gone' });
  });

  test('are refused at once when it never ran, and for what is no container', async (t) => {
    const app = await program(t, (_, response) => response.end('ok'));
    await app.kill();
    // A hold that began would not end within the time of this test.
    const never = await behindProxy(t, app.port, { holdMs: 3_600_000 });
    assert.equal((await never.ask()).status, 502);
    await app.start();
    const route = await behindProxy(t, app.port, { holdMs: 3_600_000 }, false);
    assert.equal((await route.ask()).status, 200);
    await app.kill();
    assert.equal((await route.ask()).status, 502);
  });

  test('are at most so many: past that, the one that waited longest is refused', async (t) => {
    const app = await program(t, (_, response) => response.end('ok'));
    const { ask } = await behindProxy(t, app.port, { maxHeld: 2, holdMs: 3_600_000, retryMs: 20 });
    assert.equal((await ask()).status, 200);
    await app.kill();
    const first = ask();
    const others = Promise.all([ask(), ask()]);
    assert.equal((await first).status, 503);
    await app.start();
    assert.deepEqual(
      (await others).map(({ status }) => status),
      [200, 200],
    );
  });

  test('leave others room: when too many wait in all, one for the origin of most is refused', async (t) => {
    const limits = { holdMs: 3_600_000, maxHeld: 10, maxHeldInAll: 4, retryMs: 20 };
    const origins = new RestartingOrigins<string>(limits);
    t.after(() => origins.close());
    const refused: string[] = [];
    let isUp = false;
    const ask = (key: string, name: string) => {
      const open = async () => {
        if (!isUp) throw new UpstreamError('connect_failed', 'It takes none.');
        return name;
      };
      return origins.hold(key, open, new AbortController().signal).catch((error: unknown) => {
        assert.ok(error instanceof UpstreamError && error.code === 'held_too_long');
        refused.push(name);
        return undefined;
      });
    };
    const all = ['a1', 'a2', 'a3', 'b1', 'b2', 'a4'].map((name) => ask(name[0] ?? '', name));
    await until(() => refused.length === 2);
    assert.deepEqual(refused, ['a1', 'a2']);
    isUp = true;
    assert.deepEqual(await Promise.all(all), [undefined, undefined, 'a3', 'b1', 'b2', 'a4']);
  });

  test('end with their clients', async (t) => {
    const app = await program(t, (_, response) => response.end('ok'));
    const { ask, port, log } = await behindProxy(t, app.port, { holdMs: 3_600_000, retryMs: 20 });
    assert.equal((await ask()).status, 200);
    await app.kill();
    const client = connect(port, '127.0.0.1');
    await once(client, 'connect');
    client.write('GET / HTTP/1.1\r\nHost: a.test\r\n\r\n');
    await turns(20);
    client.resetAndDestroy();
    await until(() => log.some(({ status }) => status === 499), { what: 'the gateway has seen it leave' });
  });

  test('are sent again once if the program broke off before an answer, unless they change something', async (t) => {
    let count = 0;
    const server = createRaw((socket) => {
      count++;
      socket.once('data', () => socket.resetAndDestroy()).on('error', () => {});
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    t.after(async () => {
      server.close();
      await once(server, 'close');
    });
    const address = server.address();
    assert.ok(typeof address === 'object' && address !== null);
    const { ask } = await behindProxy(t, address.port);
    assert.equal((await ask()).status, 502);
    assert.equal(count, 2);
    assert.equal((await ask({ method: 'POST', body: 'x' })).status, 502);
    assert.equal(count, 3);
    const route = await behindProxy(t, address.port, {}, false);
    assert.equal((await route.ask()).status, 502);
    assert.equal(count, 4);
  });
});
