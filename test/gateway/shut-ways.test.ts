/** What is under way through a rule or a name when that is taken away, or begins to ask visitors who they are. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { Agent, request } from 'node:https';
import { describe, type TestContext, test } from 'node:test';
import { connect } from 'node:tls';
import WebSocket, { WebSocketServer } from 'ws';
import { changeAddressName } from '../../actors/compute/address-names.ts';
import { containerById } from '../../storage/compute/containers.ts';
import type { Db } from '../../storage/db.ts';
import { insertRoute } from '../../storage/gateway/routes.ts';
import { basic, cookieIn, hostOf, OTHER, OWN, OWN_NAME, openGuarded } from '../support/gateway/guards.ts';
import { rawOrigin } from '../support/gateway/proxy.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { pause } from '../support/pause.ts';
import { someone } from '../support/service/calls.ts';
import type { Cleanup } from '../support/temp.ts';
import { until } from '../support/until.ts';

failOnLeaks();

const PASSWORD = 'open sesame, please';

/** A program that speaks WebSocket, and answers a request without end, but for one. */
async function program(t: Cleanup) {
  const server = createServer(({ url }, response) => {
    if (url === '/short') return void response.end();
    const more = setInterval(() => response.write('more\n'), 50);
    response.on('close', () => clearInterval(more));
  });
  const sockets = new WebSocketServer({ server });
  const ended: number[] = [];
  sockets.on('connection', (socket) => {
    const more = setInterval(() => socket.send('more'), 50);
    socket.on('close', (code) => {
      clearInterval(more);
      ended.push(code);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(async () => {
    for (const socket of sockets.clients) socket.terminate();
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  const address = server.address();
  assert.ok(typeof address === 'object' && address !== null);
  return { port: address.port, ended };
}

/** Both containers are open to everybody. */
async function open(t: TestContext) {
  const { port, ended } = await program(t);
  const gateway = await openGuarded(t, port);
  for (const id of [OWN, OTHER]) await gateway.guard(id, { isPublic: true });
  const to = { host: '127.0.0.1', port: gateway.ports.https, rejectUnauthorized: false };
  const join = async (host = hostOf(OWN), headers: Record<string, string> = {}) => {
    const tried = async () => {
      const agent = new Agent({ servername: host, rejectUnauthorized: false });
      const socket = new WebSocket(`wss://127.0.0.1:${to.port}/`, { agent, headers: { host, ...headers } });
      const isOpen = await Promise.race([
        once(socket, 'open').then(() => true),
        once(socket, 'error').then(() => false),
      ]).catch(() => false);
      if (!isOpen) return undefined;
      t.after(() => socket.terminate());
      return socket;
    };
    return until(tried, { what: 'a WebSocket', timeoutMs: 60_000, everyMs: 100 });
  };
  /** A response that goes on; resolves with how to know whether it ended. */
  const load = async (host: string) => {
    const asked = request({ ...to, servername: host, path: '/', headers: { host }, agent: false });
    asked.on('error', () => {});
    asked.end();
    const [response] = await once(asked, 'response');
    response.on('error', () => {});
    response.resume();
    t.after(() => void asked.destroy());
    return { status: Number(response.statusCode), isOver: () => response.destroyed || response.complete };
  };
  return { ...gateway, join, load, ended };
}

/** The code with which a socket closes, within seconds. */
async function closed(socket: WebSocket): Promise<number> {
  const codes: number[] = [];
  socket.on('close', (code) => codes.push(code));
  return until(() => codes[0], { what: 'it is closed', timeoutMs: 60_000 });
}

describe('a WebSocket, and a response that goes on', () => {
  const changes = {
    'a password': ({ guard }: Awaited<ReturnType<typeof open>>) => guard(OWN, { password: PASSWORD }),
    'its owner alone': ({ guard }: Awaited<ReturnType<typeof open>>) => guard(OWN),
    'nobody, as the rule is removed': ({ remove }: Awaited<ReturnType<typeof open>>) => remove(OWN),
  };
  for (const [whom, change] of Object.entries(changes)) {
    test(`end when the port is for ${whom}; those of others go on`, async (t) => {
      const world = await open(t);
      const [own, named, other] = [await world.join(), await world.join(OWN_NAME), await world.join(hostOf(OTHER))];
      const [response, others] = [await world.load(hostOf(OWN)), await world.load(hostOf(OTHER))];
      const hidden = closed(own);
      const byName = whom.startsWith('nobody') ? undefined : closed(named);
      await change(world);
      assert.equal(await hidden, 1008);
      assert.equal(await (byName ?? 1008), 1008);
      await until(response.isOver, { what: 'the response ends', timeoutMs: 60_000 });
      await until(() => world.ended.includes(1008), { what: 'the program is told' });
      assert.deepEqual([other.readyState, others.isOver()], [WebSocket.OPEN, false]);
    });
  }

  test('go on when a rule is renewed that asks nobody, and with a new password end for who has the old one', async (t) => {
    const world = await open(t);
    const socket = await world.join();
    await world.guard(OWN, { isPublic: true });
    await pause(1500, 'watch');
    assert.equal(socket.readyState, WebSocket.OPEN);
    const code = closed(socket);
    await world.guard(OWN, { password: PASSWORD });
    assert.equal(await code, 1008);
    const answer = await until(
      async () => {
        const found = await world.visit({ path: '/short', headers: basic(PASSWORD) }).catch(() => undefined);
        return found?.status === 200 ? found : undefined;
      },
      { what: 'the password opens it', timeoutMs: 60_000 },
    );
    const visitor = await world.join(hostOf(OWN), { cookie: cookieIn(answer) });
    await pause(1500, 'watch');
    assert.equal(visitor.readyState, WebSocket.OPEN);
    const later = closed(visitor);
    await world.guard(OWN, { password: `another ${PASSWORD}` });
    assert.equal(await later, 1008);
  });
});

/** Gives a container a readable name, as the compute service does. */
async function name(db: Db, id: string, addressName: string | null): Promise<void> {
  await db.tx(async (tx) => {
    const row = await containerById(tx, id);
    assert.ok(row);
    await changeAddressName(tx, row, addressName, { caller: { ...someone(), userId: row.userId }, now: Date.now() });
  });
}

describe('what came in by a name', () => {
  for (const to of [undefined, OTHER])
    test(`ends when the hostname leads ${to === undefined ? 'nowhere' : 'to another container'}; the rest goes on`, async (t) => {
      const world = await open(t);
      const [own, named] = [await world.join(), await world.join(OWN_NAME)];
      const [response, loaded] = [await world.load(hostOf(OWN)), await world.load(OWN_NAME)];
      const code = closed(named);
      world.map(to);
      assert.equal(await code, 1008);
      await until(loaded.isOver, { what: 'the response ends', timeoutMs: 60_000 });
      await until(() => world.ended.includes(1008), { what: 'the program is told' });
      assert.deepEqual([own.readyState, response.isOver()], [WebSocket.OPEN, false]);
    });

  test('ends when the readable name is another, is given up, or is the operator’s; the rest goes on', async (t) => {
    const world = await open(t);
    const [own, byHostname] = [await world.join(), await world.join(OWN_NAME)];
    const route = { host: hostOf('third'), path_prefix: '/', target: '127.0.0.1:9', strip_prefix: false, priority: 1 };
    const ends: [string, () => Promise<unknown>][] = [
      ['first', () => name(world.db, OWN, 'second')],
      ['second', () => name(world.db, OWN, null)],
      ['third', () => insertRoute(world.db, route)],
    ];
    for (const [label, change] of ends) {
      if (label !== 'second') await name(world.db, OWN, label);
      const socket = await world.join(hostOf(label));
      const code = closed(socket);
      await change();
      assert.equal(await code, 1008, label);
    }
    assert.deepEqual([own.readyState, byHostname.readyState], [WebSocket.OPEN, WebSocket.OPEN]);
  });
});

for (const way of ['rule', 'name'] as const)
  test(`TLS that is passed on ends with its ${way}`, async (t) => {
    const heard: string[] = [];
    const origin = await rawOrigin(t, (socket) => {
      socket.on('data', (bytes) => {
        heard.push(bytes.toString('latin1'));
        socket.write('more');
      });
    });
    const world = await openGuarded(t, origin);
    await world.guard(OWN, { isPublic: true, tls: 'container' });
    if (way === 'name') await name(world.db, OWN, 'shop');
    const servername = hostOf(way === 'name' ? 'shop' : OWN);
    const to = { host: '127.0.0.1', port: world.ports.https, servername, rejectUnauthorized: false };
    const socket = await until(
      async () => {
        const tried = connect(to);
        tried.on('error', () => {});
        await pause(300, 'watch');
        if (heard.length > 0) return tried;
        tried.destroy();
        return undefined;
      },
      { what: 'its hello reaches the program', timeoutMs: 60_000 },
    );
    t.after(() => void socket.destroy());
    let isClosed = false;
    socket.on('close', () => {
      isClosed = true;
    });
    assert.equal(isClosed, false);
    await (way === 'name' ? name(world.db, OWN, null) : world.remove(OWN));
    await until(() => isClosed, { what: 'it ends', timeoutMs: 60_000 });
  });
