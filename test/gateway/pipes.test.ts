/** Several requests at a time on one connection to an origin: everybody gets their own answer, whatever origin and neighbours do. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { Socket } from 'node:net';
import { describe, type TestContext, test } from 'node:test';
import { type Below, belowOf } from '../support/gateway/pipe-trial.ts';
import { openProxy, type RawClient, rawClient, rawOrigin, type TestProxy } from '../support/gateway/proxy.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { until } from '../support/until.ts';

failOnLeaks();

/** A request as an origin sees it, and its connection. */
interface Asked {
  readonly method: string;
  readonly target: string;
  readonly socket: Socket;
  /** How many came before it on this connection. */
  readonly before: number;
}

interface TestOrigin {
  readonly port: number;
  readonly asked: Asked[];
  /** Most requests that one read of a connection brought. */
  most(): number;
}

/** An origin that answers by `answer`; its requests are handed over in order. */
async function origin(t: TestContext, answer: (asked: Asked) => void): Promise<TestOrigin> {
  const asked: Asked[] = [];
  let most = 0;
  const port = await rawOrigin(t, (socket) => {
    let text = '';
    let before = 0;
    socket.on('data', (chunk: Buffer) => {
      text += chunk.toString('latin1');
      let count = 0;
      for (let end = text.indexOf('\r\n\r\n'); end >= 0; end = text.indexOf('\r\n\r\n')) {
        const [method = '', target = ''] = text.slice(0, end).split(' ');
        const length = Number(/content-length: (\d+)/i.exec(text.slice(0, end))?.[1] ?? 0);
        text = text.slice(end + 4 + length);
        const one = { method, target, socket, before: before++ };
        asked.push(one);
        count++;
        answer(one);
      }
      most = Math.max(most, count);
    });
  });
  return { port, asked, most: () => most };
}

const respond = ({ socket, target, method }: Asked, extra = '') =>
  void socket.write(
    `HTTP/1.1 200 OK\r\nContent-Length: ${target.length}\r\n${extra}\r\n${method === 'HEAD' ? '' : target}`,
    'latin1',
  );

const get = (target: string, method = 'GET') => `${method} ${target} HTTP/1.1\r\nHost: a.test\r\n\r\n`;

/** Clients that are connected, to ask all in one turn. */
async function clientsOf(t: TestContext, proxy: TestProxy, count: number): Promise<RawClient[]> {
  return Promise.all(Array.from({ length: count }, () => rawClient(t, proxy.port)));
}

/** All ask at once, and each is answered with its own target. */
async function round(clients: readonly RawClient[], name: string): Promise<void> {
  for (const [i, client] of clients.entries()) client.send(get(`/${name}/${i}`));
  for (const [i, client] of clients.entries()) await client.sees(new RegExp(`/${name}/${i}$`));
}

/** Rounds until the origin was asked for at least `count` at a time. */
async function warm(clients: readonly RawClient[], { most }: TestOrigin, count: number): Promise<void> {
  for (let i = 0; most() < count; i++) {
    assert.ok(i < 500, `never more than ${most()} at a time`);
    await round(clients, `warm${i}`);
  }
}

describe('an origin that takes more than one request at a time', () => {
  test('is asked for what comes at once on one connection, and each client gets its own answer', async (t) => {
    const at = await origin(t, respond);
    const proxy = await openProxy(t, at.port, { pipelined: [at.port] });
    const clients = await clientsOf(t, proxy, 24);
    await warm(clients, at, 12);
    await round(clients, 'again');
    assert.ok(new Set(at.asked.slice(-24).map(({ socket }) => socket)).size < 24, 'connections are shared');
    // Beside bodies that are only announced.
    for (const [i, client] of clients.entries()) client.send(get(`/mixed/${i}`, i % 2 === 0 ? 'HEAD' : 'GET'));
    for (const [i, client] of clients.entries()) {
      const length = `/mixed/${i}`.length;
      await client.sees(new RegExp(`Content-Length: ${length}\r\n\r\n${i % 2 === 0 ? '' : `/mixed/${i}`}$`));
    }
  });

  test('is never asked so for what changes something, has a body, or may switch protocols', async (t) => {
    const at = await origin(t, respond);
    const proxy = await openProxy(t, at.port, { pipelined: [at.port] });
    const clients = await clientsOf(t, proxy, 12);
    for (let i = 0; i < 8; i++) {
      for (const client of clients)
        client.send(
          [
            `POST /p${i} HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1\r\n\r\nx`,
            get(`/p${i}`, 'DELETE'),
            `GET /p${i} HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n`,
            `GET /p${i} HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1\r\n\r\nx`,
          ][i % 4] ?? '',
        );
      for (const client of clients) await client.sees(new RegExp(`/p${i}$`));
    }
    assert.equal(at.most(), 1);
  });

  test('must be named: others are asked one by one', async (t) => {
    const at = await origin(t, respond);
    const proxy = await openProxy(t, at.port, { pipelined: [at.port + 1] });
    const clients = await clientsOf(t, proxy, 12);
    for (let i = 0; i < 10; i++) await round(clients, `r${i}`);
    assert.equal(at.most(), 1);
  });

  test('may frame and cut its answers as it likes', async (t) => {
    const below = belowOf(20_261_121);
    // All that a connection has to say, in pieces of any size.
    const waiting = new Map<Socket, string>();
    const at = await origin(t, ({ socket, target }) => {
      if (!waiting.has(socket)) setImmediate(() => void pieces(below, socket, waiting));
      waiting.set(socket, (waiting.get(socket) ?? '') + framed(below, target));
    });
    const proxy = await openProxy(t, at.port, { pipelined: [at.port] });
    const clients = await clientsOf(t, proxy, 16);
    for (let i = 0; i < 60 || at.most() < 6; i++) {
      const name = `round${i}-${'x'.repeat(below(300))}`;
      for (const [j, client] of clients.entries()) client.send(get(`/${name}/${j}`));
      for (const [j, client] of clients.entries())
        await client.sees(
          new RegExp(`X-Target: /${name}/${j}\r\n([^]*\r\n)?\r\n([^]*/${name}/${j}(\r\n0\r\n\r\n)?)?$`),
        );
    }
    for (const [j, client] of clients.entries()) {
      const targets = [...client.text().matchAll(/X-Target: \/round\d+-x*\/(\d+)\r\n/g)].map(([, of]) => Number(of));
      assert.ok(targets.length >= 60 && targets.every((of) => of === j), 'no answer of another client');
    }
  });
});

/** An answer that says its target in a field and, if it has one, in its body. */
function framed(below: Below, target: string): string {
  const kind = below(4);
  if (kind === 0) return `HTTP/1.1 204 No Content\r\nX-Target: ${target}\r\n\r\n`;
  if (kind === 1) return `HTTP/1.1 304 Not Modified\r\nContent-Length: 999\r\nX-Target: ${target}\r\n\r\n`;
  if (kind === 2) return `HTTP/1.1 200 OK\r\nX-Target: ${target}\r\nContent-Length: ${target.length}\r\n\r\n${target}`;
  const chunk = `${target.length.toString(16)}\r\n${target}\r\n`;
  const interim = below(2) === 0 ? 'HTTP/1.1 100 Continue\r\n\r\n' : '';
  return `${interim}HTTP/1.1 200 OK\r\nX-Target: ${target}\r\nTransfer-Encoding: chunked\r\n\r\n${chunk}0\r\n\r\n`;
}

async function pieces(below: Below, socket: Socket, waiting: Map<Socket, string>): Promise<void> {
  for (let text = waiting.get(socket) ?? ''; text !== '' && !socket.destroyed; text = waiting.get(socket) ?? '') {
    const length = 1 + below(below(2) === 0 ? 40 : 2000);
    waiting.set(socket, text.slice(length));
    socket.write(text.slice(0, length), 'latin1');
    await new Promise((resolve) => setImmediate(resolve));
  }
  waiting.delete(socket);
}

describe('those who wait behind another', () => {
  test('are sent another way when its answer takes long, and it gets its answer, too', async (t) => {
    const held: Asked[] = [];
    const at = await origin(t, (asked) => {
      // What is behind it on its connection is not answered before it.
      if (asked.target.startsWith('/slow') || held.some(({ socket }) => socket === asked.socket)) held.push(asked);
      else respond(asked);
    });
    const proxy = await openProxy(t, at.port, { pipelined: [at.port] });
    const clients = await clientsOf(t, proxy, 12);
    await warm(clients, at, 6);
    // Until it came to stand before others.
    const [slow = clients[0], ...others] = clients;
    for (let i = 0; held.length < 2; i++) {
      assert.ok(i < 200, 'nobody ever stood behind it');
      for (const one of held.splice(0)) respond(one);
      slow?.send(get(`/slow${i}`));
      for (const [j, client] of others.entries()) client.send(get(`/behind${i}/${j}`));
      for (const [j, client] of others.entries()) await client.sees(new RegExp(`/behind${i}/${j}$`));
      if (held.length >= 2) break;
      for (const one of held.splice(0)) respond(one);
      await slow?.sees(new RegExp(`/slow${i}$`));
    }
    const [first] = held;
    assert.ok(first !== undefined);
    assert.doesNotMatch(slow?.text() ?? '', new RegExp(`${first.target}$`));
    respond(first);
    await slow?.sees(new RegExp(`${first.target}$`));
    await round(clients, 'after');
  });

  test('are asked for again when the origin breaks off or says that it closes', async (t) => {
    for (const announced of [true, false]) {
      const limit = 10;
      const at = await origin(t, (asked) => {
        if (asked.before >= limit || asked.socket.writableEnded) return;
        const isLast = asked.before === limit - 1;
        respond(asked, isLast && announced ? 'Connection: close\r\n' : '');
        if (isLast) asked.socket.end();
      });
      const proxy = await openProxy(t, at.port, { pipelined: [at.port] });
      const clients = await clientsOf(t, proxy, 12);
      for (let i = 0; i < 30; i++) await round(clients, `r${i}`);
      assert.ok(at.most() > 1, 'connections are shared');
      assert.deepEqual([...new Set(proxy.log.map(({ status }) => status))], [200]);
    }
  });

  test('get their own answers when those before them leave', async (t) => {
    const held: Asked[] = [];
    let isHolding = false;
    const at = await origin(t, (asked) => {
      if (isHolding) held.push(asked);
      else respond(asked);
    });
    const proxy = await openProxy(t, at.port, { pipelined: [at.port] });
    const clients = await clientsOf(t, proxy, 12);
    await warm(clients, at, 8);
    isHolding = true;
    for (const [i, client] of clients.entries()) client.send(get(`/held/${i}`));
    await until(() => held.length >= clients.length, { what: 'the origin is asked' });
    const leaving = clients.slice(0, 6);
    for (const { socket } of leaving) socket.resetAndDestroy();
    await until(() => proxy.proxy.size === 6, { what: 'the gateway knows that they left' });
    isHolding = false;
    for (const one of held.splice(0)) respond(one);
    for (const [i, client] of clients.entries()) if (i >= 6) await client.sees(new RegExp(`/held/${i}$`));
    for (let i = 0; i < 20; i++) await round(clients.slice(6), `after${i}`);
  });

  test('do not wait for what a client has left or does not read, however long it is', async (t) => {
    const large = 'x'.repeat(20_000_000);
    const at = await origin(t, (asked) => {
      if (!asked.target.startsWith('/large')) respond(asked);
      else asked.socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${large.length}\r\n\r\n${large}`, 'latin1');
    });
    const proxy = await openProxy(t, at.port, { pipelined: [at.port] });
    const clients = await clientsOf(t, proxy, 12);
    await warm(clients, at, 6);
    for (const leaves of [true, false]) {
      const [reader] = await clientsOf(t, proxy, 1);
      if (!leaves) reader?.socket.pause();
      reader?.send(get('/large'));
      for (const [i, client] of clients.entries()) client.send(get(`/small${leaves}/${i}`));
      if (leaves) {
        await reader?.answered();
        reader?.socket.destroy();
      }
      for (const [i, client] of clients.entries()) await client.sees(new RegExp(`/small${leaves}/${i}$`));
      if (leaves) continue;
      reader?.socket.resume();
      await until(() => reader?.text().endsWith('x') && reader.text().length > large.length, { what: 'all of it' });
    }
    await round(clients, 'after');
  });
});

describe('an origin that does not keep to the order', () => {
  test('is not used so again for a while; what came unasked or is no answer reaches nobody', async (t) => {
    for (const wrong of ['EVIL\r\n\r\n', 'HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nEVIL']) {
      let isWrong = false;
      let wrongs = 0;
      let dropped = 0;
      const at = await origin(t, (asked) => {
        respond(asked);
        if (!isWrong) return;
        asked.socket.write(wrong, 'latin1');
        asked.socket.once('end', () => dropped++);
        wrongs++;
      });
      const proxy = await openProxy(t, at.port, { pipelined: [at.port] });
      const clients = await clientsOf(t, proxy, 8);
      await warm(clients, at, 4);
      const [alone] = clients;
      isWrong = true;
      // With nobody behind, it is unasked.
      alone?.send(get('/alone'));
      await alone?.sees(/\/alone$/);
      await until(() => dropped > 0, { what: 'the connection is dropped' });
      isWrong = false;
      for (let i = 0; i < 5; i++) await round(clients, `r${i}`);
      assert.ok(clients.every((client) => !client.text().includes('EVIL')));
      if (!wrong.startsWith('EVIL')) continue;
      // Between answers it is none: those behind are asked for again, one by one.
      const before = wrongs;
      isWrong = true;
      for (const [i, client] of clients.entries()) client.send(get(`/among/${i}`));
      await until(() => wrongs > before, { what: 'it was said' });
      isWrong = false;
      for (const [i, client] of clients.entries()) await client.sees(new RegExp(`/among/${i}$`));
      assert.ok(clients.every((client) => !client.text().includes('EVIL')));
      assert.deepEqual([...new Set(proxy.log.map(({ status }) => status))], [200]);
    }
  });

  test('that looks at a second request only when something new comes is asked one by one, and nobody waits for it', async (t) => {
    // As servers with a thread for each socket that is ready: what came along with a request stays in their buffer.
    let kept = 0;
    let most = 0;
    const port = await rawOrigin(t, (socket) => {
      const waiting: string[] = [];
      socket.on('data', (chunk: Buffer) => {
        const targets = [...chunk.toString('latin1').matchAll(/^GET (\S+) /gm)].map(([, target]) => target ?? '');
        most = Math.max(most, targets.length);
        waiting.push(...targets);
        const target = waiting.shift();
        if (target !== undefined) respond({ socket, target, method: 'GET', before: 0 });
        kept += waiting.length;
      });
    });
    const proxy = await openProxy(t, port, { pipelined: [port], timeouts: { stallMs: 300_000 } });
    const clients = await clientsOf(t, proxy, 12);
    for (let i = 0; kept === 0; i++) {
      assert.ok(i < 500);
      await round(clients, `r${i}`);
    }
    assert.equal(most, 2);
    const before = kept;
    for (let i = 0; i < 20; i++) await round(clients, `after${i}`);
    // The pipes that were open already may each keep one.
    assert.ok(kept - before <= 8, `kept ${kept - before} more`);
    assert.deepEqual([...new Set(proxy.log.map(({ status }) => status))], [200]);
  });

  test('that ends a connection with more than one request is asked one by one', async (t) => {
    let isRefused = 0;
    const port = await rawOrigin(t, (socket) => {
      socket.on('data', (chunk: Buffer) => {
        const targets = [...chunk.toString('latin1').matchAll(/^GET (\S+) /gm)].map(([, target]) => target ?? '');
        if (targets.length > 1) {
          isRefused++;
          socket.destroy();
        } else for (const target of targets) respond({ socket, target, method: 'GET', before: 0 });
      });
    });
    const proxy = await openProxy(t, port, { pipelined: [port] });
    const clients = await clientsOf(t, proxy, 12);
    for (let i = 0; isRefused === 0; i++) {
      assert.ok(i < 500);
      await round(clients, `r${i}`);
    }
    const before = isRefused;
    for (let i = 0; i < 20; i++) await round(clients, `after${i}`);
    // The pipes that were open already may each be refused once.
    assert.ok(isRefused - before <= 8, `refused ${isRefused - before} times more`);
    assert.deepEqual([...new Set(proxy.log.map(({ status }) => status))], [200]);
  });

  test('that ends each connection after an answer, and says so, is asked one by one, too', async (t) => {
    const at = await origin(t, (asked) => {
      if (asked.before > 0) return;
      respond(asked, 'Connection: close\r\n');
      asked.socket.end();
    });
    const proxy = await openProxy(t, at.port, { pipelined: [at.port] });
    const clients = await clientsOf(t, proxy, 12);
    await warm(clients, at, 2);
    const before = at.asked.filter((asked) => asked.before > 0).length;
    for (let i = 0; i < 20; i++) await round(clients, `after${i}`);
    const more = at.asked.filter((asked) => asked.before > 0).length - before;
    assert.ok(more <= 8, `${more} more stood behind another`);
    assert.deepEqual([...new Set(proxy.log.map(({ status }) => status))], [200]);
  });

  test('that is not there is a bad gateway', async (t) => {
    const at = await origin(t, respond);
    const proxy = await openProxy(t, at.port + 1, { pipelined: [at.port + 1] });
    const client = await rawClient(t, proxy.port, get('/'));
    await client.sees(/^HTTP\/1.1 502 /);
  });
});

test('idle pipes are closed after a while, and the gateway ends with some open', async (t) => {
  const at = await origin(t, respond);
  const proxy = await openProxy(t, at.port, { pipelined: [at.port], limits: { idleMs: 50 } });
  const clients = await clientsOf(t, proxy, 4);
  await warm(clients, at, 2);
  await until(() => proxy.upstreams.counts().every(({ connections }) => connections === 0), {
    what: 'no connection is left',
  });
  await warm(clients, { ...at, most: () => at.asked.at(-1)?.before ?? 0 }, 1);
  clients[0]?.socket.end();
  if (clients[0] !== undefined) await once(clients[0].socket, 'end');
});
