/** Who begins when many want to: handshakes of few come first, those of many take turns and leave the loop time. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { describe, type TestContext, test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { connect, type TLSSocket } from 'node:tls';
import { Admission } from '../../transports/gateway/tcp/admission.ts';
import { listenWires } from '../../transports/gateway/tcp/listen.ts';
import { Turns, type TurnsOptions } from '../../transports/gateway/tcp/turns.ts';
import { certificateContext, TlsFront } from '../../transports/gateway/tls/front.ts';
import { certificates } from '../support/gateway/listeners.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { until } from '../support/until.ts';

failOnLeaks();

/** Turns on a clock that stands still until `pass`: of these ms the loop had nothing to do in a share of `idle`. */
function openTurns(t: TestContext, options: Partial<TurnsOptions> = {}) {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const time = { now: 1000, idle: 0 };
  const clock = { now: () => time.now, idle: () => time.idle };
  const turns = new Turns({ isShared: () => true, clock, ...options });
  t.after(() => turns.close());
  const began: string[] = [];
  const ended: string[] = [];
  const enter = (address: string, count = 1) =>
    Array.from({ length: count }, () =>
      turns.enter(address, { begin: () => began.push(address), end: () => ended.push(address) }),
    );
  const pass = async (ms: number, idle: number) => {
    for (let left = ms; left > 0; left -= 10) {
      time.now += 10;
      time.idle += 10 * idle;
      t.mock.timers.tick(6);
      await turn();
    }
  };
  const of = (address: string) => began.filter((one) => one === address).length;
  /** The loop was busy for a while. */
  const busy = () => {
    time.now += 100;
  };
  return { turns, began, ended, enter, pass, of, busy };
}

describe('turns', () => {
  test('a network that begins few never waits, however many wait; beyond that it waits while the loop is busy', (t) => {
    let told = 0;
    const { turns, enter, of, busy } = openTurns(t, { onWait: () => told++ });
    busy();
    enter('192.0.2.1', 40);
    assert.equal(told, 0);
    enter('192.0.2.1', 460);
    assert.deepEqual([of('192.0.2.1'), turns.waiting, told], [40, 460, 1]);
    enter('192.0.2.2', 40);
    assert.equal(of('192.0.2.2'), 40);
    enter('192.0.2.2');
    assert.deepEqual([of('192.0.2.2'), turns.waiting], [40, 461]);
  });

  test('an allowance comes back, and is for whoever of its network came first', async (t) => {
    const { turns, enter, of, pass, busy } = openTurns(t);
    busy();
    const leave = enter('192.0.2.1', 100)[40];
    await pass(100, 0);
    const waited = turns.waiting;
    const before = of('192.0.2.1');
    leave?.();
    enter('192.0.2.1', 2);
    assert.ok(before >= 40 && of('192.0.2.1') === before + 2, `${before} ${of('192.0.2.1')}`);
    assert.ok(turns.waiting === waited || turns.waiting === waited - 1);
  });

  test('addresses of an IPv6 /64 are one network, and those of a /48 have a second allowance', (t) => {
    const { began, enter, busy } = openTurns(t);
    busy();
    for (let i = 0; i < 100; i++) enter(`2001:db8:1:1::${i.toString(16)}`);
    assert.equal(began.length, 40);
    for (let i = 0; i < 400; i++) enter(`2001:db8:1:${(i + 2).toString(16)}::1`);
    assert.equal(began.length, 80);
    enter('2001:db8:2::1');
    assert.equal(began.at(-1), '2001:db8:2::1');
  });

  test('who waits takes turns: sites, and within a site its networks', async (t) => {
    const { turns, began, enter, pass, busy } = openTurns(t);
    busy();
    for (const address of ['192.0.2.1', '2001:db8:1:1::1', '2001:db8:1:2::1', '192.0.2.2']) enter(address, 80);
    const before = began.length;
    await pass(300, 1);
    assert.ok(began.length >= before + 8, `${began.length - before} had their turn`);
    const [four, one, other, four2] = ['192.0.2.1', '2001:db8:1:1::1', '2001:db8:1:2::1', '192.0.2.2'];
    assert.deepEqual(began.slice(before, before + 8), [four, one, four2, four, other, four2, four, one].map(String));
    assert.ok(turns.waiting > 0);
  });

  test('more begin while the loop has time, fewer while it is busy, some always', async (t) => {
    const { began, enter, pass, busy } = openTurns(t, { limits: { burst: 1, perSecond: 0.001, perTurn: 8 } });
    busy();
    enter('192.0.2.1', 4000);
    await pass(1000, 0);
    let before = began.length;
    await pass(500, 0);
    const few = began.length - before;
    assert.ok(few >= 22 && few <= 28, `${few} of 50 a second in half of one`);
    await pass(2000, 1);
    before = began.length;
    await pass(500, 1);
    assert.ok(began.length - before > 4 * few, `${began.length - before}`);
  });

  test('whoever is alone waits for the next turn of the loop at most; who stands for many never waits', async (t) => {
    const { turns, began, enter, busy } = openTurns(t, {
      isShared: () => false,
      isTrusted: (address) => address === '192.0.2.9',
    });
    busy();
    enter('192.0.2.1', 1000);
    assert.ok(turns.waiting > 0);
    enter('192.0.2.9', 1000);
    assert.equal(began.filter((one) => one === '192.0.2.9').length, 1000);
    await until(() => turns.waiting === 0, { what: 'all have begun' });
    assert.equal(began.length, 2000);
  });

  test('who leaves has no turn any more, and the end of all ends those that wait', async (t) => {
    const { turns, began, ended, enter, pass, busy } = openTurns(t);
    busy();
    const leaves = enter('192.0.2.1', 60);
    for (const leave of leaves.slice(0, 50)) leave?.();
    assert.equal(turns.waiting, 10);
    turns.close();
    assert.deepEqual([turns.waiting, ended.length, began.length], [0, 10, 40]);
    await pass(100, 1);
    enter('192.0.2.2');
    assert.deepEqual([ended.length, began.length], [11, 40]);
  });
});

/** A TLS listener whose loop is always busy; and a client of it. */
async function front(t: TestContext, helloMs?: number) {
  const { own, authority } = await certificates();
  const context = certificateContext(own);
  const admission = new Admission();
  let now = 0;
  // A second passes between two looks, in none of which there was time: least begin.
  const clock = { now: () => (now += 1), idle: () => 0 };
  const turns = new Turns({ isShared: () => true, clock });
  const wires = new Set<{ destroy(): void }>();
  const front = new TlsFront({
    decide: () => ({ end: context }),
    onPlain: (socket) => socket.on('error', () => {}).end('in\n'),
    onPass: (wire) => wire.destroy(),
    turns,
    ...(helloMs === undefined ? {} : { helloMs }),
  });
  const listener = await listenWires('127.0.0.1', 0, admission, (wire, from) => {
    wires.add(wire);
    front.accept(wire, from);
  });
  t.after(async () => {
    turns.close();
    for (const wire of wires) wire.destroy();
    await listener.close();
  });
  const dial = (localAddress: string): TLSSocket => {
    const to = { host: '127.0.0.1', port: listener.port, servername: 'a.cloud.test', ca: authority.cert, localAddress };
    const socket = connect(to);
    t.after(() => void socket.destroy());
    return socket.on('error', () => {}).resume();
  };
  return { turns, dial };
}

test('a newcomer’s handshake does not wait behind those of a network that began many', async (t) => {
  const { turns, dial } = await front(t);
  let done = 0;
  for (let i = 0; i < 300; i++) dial('127.0.0.2').on('secureConnect', () => done++);
  await until(() => turns.waiting > 100, { what: 'many wait' });
  const newcomer = dial('127.0.0.3');
  await once(newcomer, 'secureConnect');
  assert.ok(turns.waiting > 100, `${turns.waiting}`);
  const rest = turns.waiting;
  await until(() => turns.waiting < rest, { what: 'those have their turns, too' });
});

test('who waits for a turn too long is closed, and who leaves while it waits is forgotten', async (t) => {
  const { turns, dial } = await front(t, 300);
  const sockets = Array.from({ length: 150 }, () => dial('127.0.0.2'));
  let closed = 0;
  for (const socket of sockets) socket.on('close', () => closed++);
  await until(() => closed === sockets.length, { what: 'all are in, or closed' });
  await until(() => turns.waiting === 0, { what: 'nobody waits' });
});
