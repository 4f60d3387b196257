/** Connections that came while the event loop was busy are accepted several in a turn, once that was asked for. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { copyListener } from '../../cmd/node/listener-copies.ts';
import { Admission } from '../../transports/gateway/tcp/admission.ts';
import { listenRaw, listenWires, type RawListener } from '../../transports/gateway/tcp/listen.ts';
import { failOnLeaks } from '../support/leaks.ts';

failOnLeaks();

const CLIENTS = 40;
/** Connects CLIENTS times once it is let go, counts, and leaves when it is told to. */
const CLIENT = `
  const { workerData: { port, go, connected }, parentPort } = require('node:worker_threads');
  const { connect } = require('node:net');
  parentPort.postMessage('ready');
  Atomics.wait(go, 0, 0);
  for (let i = 0; i < ${CLIENTS}; i++)
    connect(port, '127.0.0.1', () => {
      Atomics.add(connected, 0, 1);
      Atomics.notify(connected, 0);
    }).on('error', () => {});
`;

/** How many turns of the loop it takes until all clients are accepted that connected while it stood still. */
async function turnsFor(port: number, accepted: () => number): Promise<number> {
  const before = accepted();
  const [go, connected] = [new Int32Array(new SharedArrayBuffer(4)), new Int32Array(new SharedArrayBuffer(4))];
  const worker = new Worker(CLIENT, { eval: true, workerData: { port, go, connected } });
  try {
    await once(worker, 'message');
    Atomics.store(go, 0, 1);
    Atomics.notify(go, 0);
    for (let count = 0; count < CLIENTS; count = Atomics.load(connected, 0))
      assert.notEqual(Atomics.wait(connected, 0, count, 10_000), 'timed-out');
    let turns = 0;
    for (; accepted() - before < CLIENTS; turns++) await turn();
    return turns;
  } finally {
    await worker.terminate();
  }
}

const kinds = {
  wires: (onConnection: (one: { destroy(): void }) => void) =>
    listenWires('127.0.0.1', 0, new Admission(), (wire) => onConnection(wire), { copy: copyListener }),
  sockets: (onConnection: (one: { destroy(): void }) => void) =>
    listenRaw('127.0.0.1', 0, new Admission(), (socket) => onConnection(socket), { copy: copyListener }),
};

for (const [kind, listen] of Object.entries(kinds)) {
  test(`${kind}: several connections are accepted in a turn of the loop, and none after the end`, async (t) => {
    const open: { destroy(): void }[] = [];
    const listener: RawListener = await listen((one) => open.push(one));
    t.after(async () => {
      for (const one of open) one.destroy();
      await listener.close();
    });
    await Promise.all([listener.acceptMore(), listener.acceptMore()]);
    const turns = await turnsFor(listener.port, () => open.length);
    assert.ok(turns <= CLIENTS / 4, `${turns} turns`);
    for (const one of open) one.destroy();
    await listener.close();
    const refused = await new Promise((resolve) => {
      connect(listener.port, '127.0.0.1', () => resolve('connected')).on('error', (error) =>
        resolve('code' in error && error.code),
      );
    });
    assert.equal(refused, 'ECONNREFUSED');
  });
}

test('a listener that ends while it is asked for more leaves nothing behind', async () => {
  const listener = await kinds.wires((one) => one.destroy());
  const more = listener.acceptMore();
  await listener.close();
  await more;
  await listener.acceptMore();
});
