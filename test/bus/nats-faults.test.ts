/** What the bus does when the real nats-server fails it: nothing that was acknowledged to us or kept in the outbox is lost. */

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { jetstreamManager } from '@nats-io/jetstream';
import { connect } from '@nats-io/transport-node';
import { NOTIFICATIONS_STREAM } from '../../proto/notify/notification.ts';
import { BusError, type ConsumerConfig, type StreamConfig, type StreamMessage } from '../../proto/ports/bus.ts';
import { deadLetterSink, listDeadLetters } from '../../storage/bus/dead-letters.ts';
import { append, outboxStore } from '../../storage/outbox.ts';
import { natsBus } from '../../transports/bus/nats.ts';
import { relayOutbox } from '../../transports/bus/relay.ts';
import { BUS_SECRET, type NatsServerOptions, skipWithoutNats, startNats } from '../support/bus/nats-server.ts';
import { testDatabase } from '../support/database/database.ts';
import { silentLog } from '../support/log.ts';
import { until } from '../support/until.ts';

const skip = skipWithoutNats();

const stream: StreamConfig = {
  name: 'S',
  subjects: ['s.>'],
  maxMessages: 100_000,
  maxBytes: 64 << 20,
  maxAgeMs: 3_600_000,
  duplicateWindowMs: 60_000,
};
const config: ConsumerConfig = { durable: 'worker', ackWaitMs: 2000, maxDeliver: 20, maxAckPending: 100 };
const text = (data: Uint8Array) => Buffer.from(data).toString();
const isUnavailable = (error: unknown) => error instanceof BusError && error.code === 'unavailable';

/** A server, a database, and buses on both. */
async function bench(t: TestContext, options: NatsServerOptions & { patienceMs?: number } = {}) {
  const database = await testDatabase();
  t.after(() => database.close());
  const server = await startNats(t, options);
  const open = (servers: readonly string[] = [server.server]) => {
    const bus = natsBus({
      secret: BUS_SECRET,
      ...{ address: { servers }, name: 'test', deadLetters: deadLetterSink(database.db), log: silentLog },
      ...(options.patienceMs === undefined ? {} : { patienceMs: options.patienceMs }),
    });
    t.after(() => bus.close());
    return bus;
  };
  const bus = open();
  /** Somebody at the server, with NATS's own client. */
  const operator = async () => {
    const connection = await connect({ servers: server.server, reconnect: false });
    t.after(() => connection.close());
    return { connection, manager: await jetstreamManager(connection) };
  };
  return { db: database.db, server, bus, open, operator };
}

/** Collects what a consumer gets, acknowledged. */
function collector() {
  const got: string[] = [];
  const counts: number[] = [];
  return {
    got,
    counts,
    handler: async (batch: readonly StreamMessage[]) => {
      for (const { data, deliveryCount } of batch) {
        got.push(text(data));
        counts.push(deliveryCount);
      }
      await Promise.all(batch.map((message) => message.ack()));
    },
  };
}

test('a broker killed and started again: what was acknowledged comes, and appends go through meanwhile', {
  skip,
}, async (t) => {
  const { server, bus } = await bench(t);
  await bus.ensureStream(stream);
  const { got, handler } = collector();
  await bus.consume(stream.name, config, handler);
  const sent: string[] = [];
  let stop = false;
  const sending = (async () => {
    for (let i = 0; !stop; i++) {
      await Promise.all(
        Array.from({ length: 20 }, async (_, k) => {
          const id = `${i}.${k}`;
          await bus.append('s.x', Buffer.from(id), { msgId: id });
          sent.push(id);
        }),
      );
    }
  })();
  for (let kills = 0; kills < 3; kills++) {
    const before = sent.length;
    await until(() => sent.length > before + 200);
    await server.kill();
    await until(() => bus.problem !== undefined);
    assert.match(bus.problem ?? '', /^NATS at 127\.0\.0\.1:\d+ has not been reached for \d+ s \(.+\)$/);
    await server.start();
  }
  const before = sent.length;
  await until(() => sent.length > before + 200);
  stop = true;
  await sending;
  await until(() => new Set(got).size === sent.length, { timeoutMs: 60_000, what: 'all that was sent' });
  const info = await until(async () => bus.problem === undefined);
  assert.ok(info);
});

test('a repeated id is stored once, also when the server was killed in between', { skip }, async (t) => {
  const { server, bus } = await bench(t);
  await bus.ensureStream(stream);
  const first = await bus.append('s.x', Buffer.from('x'), { msgId: 'one' });
  await server.kill();
  await server.start();
  const second = await bus.append('s.x', Buffer.from('x'), { msgId: 'one' });
  assert.deepEqual([first.duplicate, second.duplicate], [false, true]);
  assert.equal(first.seq, second.seq);
  assert.ok((await bus.append('s.x', Buffer.from('x'), { msgId: 'two' })).seq > first.seq);
});

test('a broker started again with an empty store: streams and consumers are made again, the outbox arrives', {
  skip,
}, async (t) => {
  const { db, server, bus, operator } = await bench(t);
  await bus.ensureStream(stream);
  const { got, handler } = collector();
  await bus.consume(stream.name, config, handler);
  const ending = new AbortController();
  const relay = relayOutbox({ store: outboxStore(db), bus, log: silentLog, signal: ending.signal });
  t.after(async () => {
    ending.abort();
    await relay;
  });
  const write = (id: string) => db.tx((tx) => append(tx, { msgId: id, subject: 's.x', data: Buffer.from(id) }));
  await write('before');
  await until(() => got.includes('before'));
  await server.kill();
  await server.empty();
  for (let i = 0; i < 300; i++) await write(`away ${i}`);
  await server.start();
  await until(() => got.length === 301, { timeoutMs: 60_000, what: 'the outbox arrives' });
  assert.equal(new Set(got).size, 301);
  const { manager } = await operator();
  assert.equal((await manager.streams.info(stream.name)).config.max_bytes, stream.maxBytes);
});

test('an acknowledgement of a lost stream does not acknowledge what has its number now', { skip }, async (t) => {
  const { server, bus } = await bench(t);
  await bus.ensureStream(stream);
  let acknowledge: () => void = () => undefined;
  const released = new Promise<void>((resolve) => {
    acknowledge = resolve;
  });
  const got: string[] = [];
  await bus.consume(stream.name, { ...config, ackWaitMs: 1000 }, async (batch) => {
    for (const message of batch) {
      got.push(text(message.data));
      if (text(message.data) === 'old') await released;
      // Only the old one is ever acknowledged.
      if (text(message.data) === 'old') await message.ack();
      else if (message.deliveryCount > 1) await message.ack();
    }
  });
  await bus.append('s.x', Buffer.from('old'));
  await until(() => got.includes('old'));
  await server.kill();
  await server.empty();
  await server.start();
  const { seq } = await bus.append('s.x', Buffer.from('new'));
  assert.equal(seq, 1);
  await until(() => got.includes('new'));
  acknowledge();
  await until(() => got.filter((one) => one === 'new').length === 2, { what: 'the new message comes again' });
});

test('a stream and a consumer that somebody deleted are made again', { skip }, async (t) => {
  const { bus, operator } = await bench(t);
  await bus.ensureStream(stream);
  const { got, handler } = collector();
  await bus.consume(stream.name, config, handler);
  const { manager } = await operator();
  await bus.append('s.x', Buffer.from('1'));
  await until(() => got.includes('1'));

  await manager.consumers.delete(stream.name, config.durable);
  await bus.append('s.x', Buffer.from('2'));
  await until(() => got.includes('2'), { timeoutMs: 60_000, what: 'the consumer goes on' });
  assert.equal((await manager.consumers.info(stream.name, config.durable)).config.max_deliver, 20);

  await manager.streams.delete(stream.name);
  // Its consumer had all that was stored; what is appended from now on must arrive.
  assert.equal((await bus.append('s.x', Buffer.from('3'))).seq, 1);
  await until(() => got.includes('3'), { timeoutMs: 60_000, what: 'the stream goes on' });
});

test('the settings are those asked for; what an operator added stays', { skip }, async (t) => {
  const { bus, operator } = await bench(t);
  const { manager } = await operator();
  await manager.streams.add({ name: 'NOTIFICATIONS', subjects: ['notify.old'], description: 'mine', max_msgs: 5 });
  await bus.ensureStream(NOTIFICATIONS_STREAM);
  await bus.consume(
    'NOTIFICATIONS',
    { ...config, durable: 'notification-service', ackWaitMs: 30_000, maxDeliver: 5 },
    async () => {},
  );
  const { config: found } = await manager.streams.info('NOTIFICATIONS');
  assert.deepEqual(
    [found.subjects, found.retention, found.storage, found.max_msgs, found.max_bytes, found.max_age, found.description],
    [['notify.>'], 'limits', 'file', 1_000_000, 1024 ** 3, 7 * 86_400 * 1e9, 'mine'],
  );
  const consumer = (await manager.consumers.info('NOTIFICATIONS', 'notification-service')).config;
  assert.deepEqual(
    [consumer.durable_name, consumer.ack_policy, consumer.deliver_policy, consumer.ack_wait, consumer.max_deliver],
    ['notification-service', 'explicit', 'all', 30e9, 5],
  );
});

test('what the broker can never do is refused, not tried for ever', { skip }, async (t) => {
  const { bus, operator } = await bench(t);
  const { manager } = await operator();
  await bus.ensureStream(stream);
  // Its subjects belong to another stream.
  await assert.rejects(
    bus.ensureStream({ ...stream, name: 'T' }),
    (error) => error instanceof BusError && error.code === 'refused',
  );
  await manager.streams.update('S', { max_msg_size: 1000 });
  await assert.rejects(
    bus.append('s.x', new Uint8Array(1001)),
    (error) => error instanceof BusError && error.code === 'too_large',
  );
  assert.ok((await bus.append('s.x', new Uint8Array(50))).seq > 0);
});

test('a poison message becomes a dead letter after its deliveries, and others flow', { skip }, async (t) => {
  const { db, bus } = await bench(t);
  await bus.ensureStream(stream);
  // A set: on a slow machine an answer may come later than the ack wait, and the message comes again.
  const got = new Set<string>();
  const tries: number[] = [];
  const limits = { ...config, ackWaitMs: 300, maxDeliver: 3 };
  await bus.consume(stream.name, limits, async (batch) => {
    for (const message of batch) {
      const content = text(message.data);
      if (content === 'silence') continue;
      if (content === 'poison') {
        tries.push(message.deliveryCount);
        await message.nak(10);
      } else if (content === 'garbage') await message.term('not a\0notification');
      else {
        got.add(content);
        await message.ack();
      }
    }
  });
  await bus.append('s.poison', Buffer.from('poison'), { msgId: 'p1' });
  await bus.append('s.garbage', Buffer.from('garbage'), { msgId: 'g1' });
  await bus.append('s.silence', Buffer.from('silence'));
  for (let i = 0; i < 50; i++) await bus.append('s.x', Buffer.from(String(i)));
  await until(() => got.size === 50);
  const letters = await until(async () => {
    const found = await listDeadLetters(db, undefined, 10);
    return found.length === 3 ? found : undefined;
  });
  assert.deepEqual(tries, [1, 2, 3]);
  assert.deepEqual(
    letters
      .map(({ stream: of, durable, subject, data, reason, deliveries }) => [
        of,
        durable,
        subject,
        text(data),
        reason,
        deliveries,
      ])
      .sort(),
    [
      ['S', 'worker', 's.garbage', 'garbage', 'not anotification', 1],
      ['S', 'worker', 's.poison', 'poison', 'delivered too often', 3],
      ['S', 'worker', 's.silence', 'silence', 'delivered too often', 3],
    ],
  );
  assert.deepEqual(letters.find(({ subject }) => subject === 's.poison')?.msgId, 'p1');
});

test('what was delivered too often while nobody listened is a dead letter once somebody does', {
  skip,
}, async (t) => {
  const { db, bus, open, operator } = await bench(t);
  await bus.ensureStream(stream);
  const first = await bus.consume(stream.name, { ...config, ackWaitMs: 100, maxDeliver: 1 }, async () => {});
  await first.close();
  await bus.close();
  // Another program with the same durable lets it run out.
  const { connection } = await operator();
  const { jetstream } = await import('@nats-io/jetstream');
  const js = jetstream(connection);
  await js.publish('s.x', 'left alone');
  const consumer = await js.consumers.get('S', 'worker');
  assert.ok(await consumer.next({ expires: 1000 }));
  // Asking again makes the server notice.
  assert.equal(await consumer.next({ expires: 1000 }), null);
  assert.equal((await listDeadLetters(db, 'S', 10)).length, 0);
  const later = open();
  await later.consume(stream.name, { ...config, ackWaitMs: 100, maxDeliver: 1 }, async () => {});
  await until(async () => (await listDeadLetters(db, 'S', 10)).length === 1, { timeoutMs: 60_000 });
});

test('two with one durable: each message to one of them, and all of a dead one’s to the other', {
  skip,
}, async (t) => {
  const { bus, open } = await bench(t);
  const other = open();
  await bus.ensureStream(stream);
  const mine = collector();
  const theirs = collector();
  const limits = { ...config, maxAckPending: 50 };
  await bus.consume(stream.name, limits, mine.handler);
  await other.consume(stream.name, limits, theirs.handler);
  await Promise.all(Array.from({ length: 1000 }, (_, i) => bus.append('s.x', Buffer.from(String(i)))));
  await until(() => mine.got.length + theirs.got.length >= 1000);
  assert.equal(new Set([...mine.got, ...theirs.got]).size, 1000);
  assert.equal(mine.got.length + theirs.got.length, 1000);
  assert.ok(mine.got.length > 0 && theirs.got.length > 0);
  await other.close();
  await Promise.all(Array.from({ length: 200 }, (_, i) => bus.append('s.x', Buffer.from(`late ${i}`))));
  await until(() => mine.got.filter((one) => one.startsWith('late')).length === 200);
});

test('an answer later than the ack wait: the message comes again, is acknowledged once, and the stream goes on', {
  skip,
}, async (t) => {
  const { bus, operator } = await bench(t);
  await bus.ensureStream(stream);
  const deliveries: number[] = [];
  await bus.consume(stream.name, { ...config, ackWaitMs: 200 }, async (batch) => {
    for (const message of batch) {
      deliveries.push(message.deliveryCount);
      if (message.deliveryCount === 1) await until(() => deliveries.length > 1);
      await message.ack();
    }
  });
  await bus.append('s.x', Buffer.from('slow'));
  const { manager } = await operator();
  await until(async () => {
    const info = await manager.consumers.info('S', 'worker');
    return info.num_ack_pending === 0 && info.ack_floor.stream_seq === 1;
  });
  assert.deepEqual(deliveries.slice(0, 2), [1, 2]);
});

test('a server that hangs: appends are refused in time, and go through when it goes on', { skip }, async (t) => {
  const { server, bus } = await bench(t, { patienceMs: 500 });
  await bus.ensureStream(stream);
  await server.freeze();
  await assert.rejects(bus.append('s.x', Buffer.from('1'), { msgId: '1' }), isUnavailable);
  await assert.rejects(
    bus.request('nobody', Buffer.from(''), 100),
    (error) => error instanceof BusError && error.code === 'timeout',
  );
  server.thaw();
  const again = await bus.append('s.x', Buffer.from('1'), { msgId: '1' });
  // It lay in the socket all the while.
  assert.deepEqual([again.seq, again.duplicate], [1, true]);
});

test('a clock that is set back an hour keeps no append waiting for an hour, and nobody counts its seconds', {
  skip,
  timeout: 60_000,
}, async (t) => {
  const { server, bus } = await bench(t, { patienceMs: 500 });
  await bus.ensureStream(stream);
  const real = Date.now;
  await server.freeze();
  const appended = bus.append('s.x', Buffer.from('1'), { msgId: '1' });
  const anHourBack = t.mock.method(Date, 'now', () => real() - 3_600_000);
  await assert.rejects(appended, isUnavailable);
  server.thaw();
  await server.kill();
  await until(() => bus.problem !== undefined);
  // Of two replacements, the end of the test would put the first one back.
  anHourBack.mock.restore();
  t.mock.method(Date, 'now', () => real() - 7_200_000);
  assert.match(bus.problem ?? '', /not been reached for \d+ s/);
  await server.start();
  await until(() => bus.problem === undefined);
});

test('while the server is away memory stays bounded, and publishes are dropped', { skip }, async (t) => {
  const { server, bus } = await bench(t, { patienceMs: 300 });
  await bus.ensureStream(stream);
  const heard: string[] = [];
  bus.subscribe('core.x', ({ data }) => heard.push(text(data)));
  await server.kill();
  await until(() => bus.problem !== undefined);
  for (let i = 0; i < 1000; i++) bus.publish('core.x', Buffer.alloc(100_000));
  const appends = await Promise.allSettled(
    Array.from({ length: 200 }, () => bus.append('s.x', Buffer.alloc(512 << 10))),
  );
  assert.ok(appends.every((result) => result.status === 'rejected' && isUnavailable(result.reason)));
  await assert.rejects(bus.request('core.x', Buffer.from(''), 50), isUnavailable);
  await server.start();
  await until(() => bus.problem === undefined);
  bus.publish('core.x', Buffer.from('back'));
  await until(() => heard.length > 0);
  assert.deepEqual(heard, ['back']);
});

test('a process too slow for the server is cut off, comes back, and gets all of its stream', {
  skip,
}, async (t) => {
  const { bus, open, server } = await bench(t, { configuration: 'max_pending: 1MB\nwrite_deadline: "100ms"' });
  const fast = open();
  await bus.ensureStream(stream);
  const { got, handler } = collector();
  await bus.consume(stream.name, config, handler);
  let heard = 0;
  bus.subscribe('flood.x', () => {
    heard += 1;
  });
  await fast.connected(5000);
  const child = await import('node:worker_threads');
  const flooder = new child.Worker(
    `const net = require('node:net'); const { workerData, parentPort } = require('node:worker_threads');
     const socket = net.connect(workerData, '127.0.0.1', () => {
       socket.write('CONNECT {"verbose":false}\\r\\n');
       const payload = 'x'.repeat(100000); const line = 'PUB flood.x 100000\\r\\n' + payload + '\\r\\n';
       let n = 0; const more = () => { while (n++ < 400) if (!socket.write(line)) return socket.once('drain', more); parentPort.postMessage('done'); };
       more(); });`,
    { eval: true, workerData: server.port },
  );
  t.after(() => flooder.terminate());
  // This thread does nothing, not even read, for a while.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2500);
  await until(() => server.log.includes('Slow Consumer'), { what: 'the server cuts us off' });
  await Promise.all(Array.from({ length: 50 }, (_, i) => fast.append('s.x', Buffer.from(String(i)))));
  await until(() => new Set(got).size === 50, { timeoutMs: 60_000 });
  assert.ok(heard < 400);
});

test('a full disk: appends are refused or stored, never lost, and go on once there is room', {
  skip: skip || withoutMount(),
}, async (t) => {
  // Mounted before the server's own hooks are set up, so unmounted after it has ended.
  const store = await mountSmall(t, '6m');
  if (store === undefined) return t.skip('mounting is not allowed here');
  const { server, bus } = await bench(t, { store, patienceMs: 1500 });
  await bus.ensureStream(stream);
  const stored: string[] = [];
  const attempt = async (id: string) => {
    await bus.append('s.x', Buffer.alloc(64 << 10, id), { msgId: id });
    stored.push(id);
  };
  let refused = 0;
  for (let i = 0; i < 300 && refused < 3; i++) {
    await attempt(`${i};`).catch((error: unknown) => {
      assert.ok(isUnavailable(error), String(error));
      refused += 1;
    });
  }
  assert.equal(refused, 3, 'the disk did not fill up');
  execFileSync('mount', ['-o', 'remount,size=64m', store]);
  // 2.9 turns JetStream off when its disk is full, until it is started again.
  await server.kill();
  await server.start();
  await attempt('after;');
  const got = new Set<string>();
  await bus.consume(stream.name, config, async (batch) => {
    for (const { data } of batch) got.add(text(data.subarray(0, data.indexOf(59) + 1)));
    await Promise.all(batch.map((message) => message.ack()));
  });
  await until(() => stored.every((id) => got.has(id)), { what: 'all that was acknowledged' });
});

function withoutMount(): string | false {
  return process.platform === 'linux' && process.getuid?.() === 0 ? false : 'needs root to mount a small disk';
}

/** A folder with a file system of its own. */
async function mountSmall(t: TestContext, size: string): Promise<string | undefined> {
  const folder = await mkdtemp(join(tmpdir(), 'troupe-disk-'));
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${size}`, 'troupe-test', folder], { stdio: 'pipe' });
  } catch {
    await rm(folder, { recursive: true });
    return undefined;
  }
  t.after(async () => {
    execFileSync('umount', ['-l', folder]);
    await rm(folder, { recursive: true });
  });
  return folder;
}
