import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { z } from 'zod';
import { type Bus, BusError } from '../../proto/ports/bus.ts';
import { streamStore } from '../../storage/bus/store.ts';
import { append, outboxStore } from '../../storage/outbox.ts';
import { embeddedBus } from '../../transports/bus/embedded.ts';
import { relayOutbox } from '../../transports/bus/relay.ts';
import { testDatabase } from '../support/database/database.ts';
import { silentLog } from '../support/log.ts';
import { until } from '../support/until.ts';

const config = { durable: 'd', ackWaitMs: 30_000, maxDeliver: 5, maxAckPending: 1000 };

/** A database with a stream `e.>`, a bus on it, and a list of what a consumer of the stream got. */
async function bench(t: TestContext) {
  const { db, close } = await testDatabase();
  const bus = embeddedBus({ store: streamStore(db), log: silentLog });
  const ending = new AbortController();
  const relays: Promise<void>[] = [];
  const got: string[] = [];
  t.after(async () => {
    ending.abort();
    await Promise.all(relays);
    await bus.close();
    await close();
  });
  await bus.ensureStream({
    name: 'E',
    subjects: ['e.>'],
    maxMessages: 10_000,
    maxBytes: 1 << 20,
    maxAgeMs: 1e6,
    duplicateWindowMs: 60_000,
  });
  await bus.consume('E', config, async (batch) => {
    got.push(...batch.map(({ data }) => String(data)));
    await Promise.all(batch.map((message) => message.ack()));
  });
  const write = (msgId: string, subject = 'e.x') =>
    db.tx((tx) => append(tx, { msgId, subject, data: Buffer.from(msgId) }));
  const relay = (over: Pick<Bus, 'append'> = bus) => {
    const running = relayOutbox({ store: outboxStore(db), bus: over, log: silentLog, signal: ending.signal });
    relays.push(running);
  };
  const left = async () =>
    (await db.many(z.object({ msg_id: z.string() }), 'select msg_id from outbox order by id')).map((row) => row.msg_id);
  return { db, bus, got, write, relay, relays, left, ending };
}

test('events written before and while the relay runs are published in order and removed', async (t) => {
  const { got, write, relay, left } = await bench(t);
  for (let i = 0; i < 450; i++) await write(String(i));
  relay();
  await until(() => got.length === 450);
  await write('450');
  await until(() => got.length === 451);
  assert.deepEqual(
    got,
    got.map((_, i) => String(i)),
  );
  await until(async () => (await left()).length === 0);
});

test('an event of a transaction that was rolled back is never published', async (t) => {
  const { db, got, write, relay } = await bench(t);
  relay();
  await assert.rejects(
    db.tx(async (tx) => {
      await append(tx, { msgId: 'no', subject: 'e.x', data: Buffer.from('no') });
      throw new Error('rolled back');
    }),
  );
  await write('yes');
  await until(() => got.length > 0);
  assert.deepEqual(got, ['yes']);
});

test('two relays, and a repeated id: each event comes once', async (t) => {
  const { got, write, relay, left } = await bench(t);
  relay();
  relay();
  await Promise.all(Array.from({ length: 50 }, (_, i) => write(String(i))));
  await write('7');
  await until(async () => (await left()).length === 0 && got.length >= 50);
  assert.equal(got.length, 50);
  assert.equal(new Set(got).size, 50);
});

test('a bus that fails for a while loses nothing', async (t) => {
  const { bus, got, write, relay, left } = await bench(t);
  let failures = 0;
  relay({
    append(subject, data, options) {
      failures += 1;
      if (failures <= 3) return Promise.reject(new BusError('unavailable', 'away'));
      return bus.append(subject, data, options);
    },
  });
  await write('1');
  await until(() => got.length === 1);
  await until(async () => (await left()).length === 0);
});

test('an event that no stream takes stays and holds up no other', async (t) => {
  const { got, write, relay, left } = await bench(t);
  await write('lost', 'nobody.takes.this');
  await write('fine');
  relay();
  await until(() => got.includes('fine'));
  await until(async () => (await left()).join() === 'lost');
});

test('the relay ends when told', async (t) => {
  const { relay, relays, ending } = await bench(t);
  relay();
  ending.abort();
  await Promise.all(relays);
});
