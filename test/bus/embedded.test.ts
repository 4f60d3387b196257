import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { after, before, suite, test } from 'node:test';
import { z } from 'zod';
import type { Bus, StreamMessage } from '../../proto/ports/bus.ts';
import { streamStore } from '../../storage/bus/store.ts';
import { openDb } from '../../storage/db.ts';
import { embeddedBus } from '../../transports/bus/embedded.ts';
import { type BusBench, busContract } from '../support/bus/conformance.ts';
import { type TestDatabase, testDatabase } from '../support/database/database.ts';
import { silentLog } from '../support/log.ts';
import { supportProgram } from '../support/project.ts';
import { until } from '../support/until.ts';

/** Buses that each have a pool of their own, as processes would. */
async function embeddedBench(): Promise<BusBench> {
  const database = await testDatabase();
  const pools: { close(): Promise<void> }[] = [];
  return {
    async open() {
      const db = openDb(database.connection, { log: silentLog, name: 'bus', max: 6 });
      pools.push(db);
      return embeddedBus({ store: streamStore(db), log: silentLog, lookMs: 60_000 });
    },
    async close() {
      await Promise.all(pools.map((pool) => pool.close()));
      await database.close();
    },
  };
}

busContract('embedded bus', embeddedBench);

const stream = {
  name: 'S',
  subjects: ['s.>'],
  maxMessages: 10_000,
  maxBytes: 1 << 24,
  maxAgeMs: 3_600_000,
  duplicateWindowMs: 60_000,
};
const config = { durable: 'worker', ackWaitMs: 30_000, maxDeliver: 5, maxAckPending: 100 };
const count = z.object({ count: z.number() });
const ackAll = async (batch: readonly StreamMessage[]) => {
  await Promise.all(batch.map((message) => message.ack()));
};

suite('embedded bus and its store', () => {
  let database: TestDatabase;
  let bus: Bus;
  before(async () => {
    database = await testDatabase();
    bus = embeddedBus({ store: streamStore(database.db), log: silentLog, lookMs: 60_000, trimMs: 20 });
  });
  after(async () => {
    await bus.close();
    await database.close();
  });
  const children: ChildProcess[] = [];
  after(() => {
    for (const child of children) child.kill('SIGKILL');
  });

  const startChild = (name: string, mode: string) => {
    const child = spawn(process.execPath, [...supportProgram('bus/consumer-process'), database.url, name, mode], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    children.push(child);
    const lines: string[] = [];
    if (child.stdout) createInterface(child.stdout).on('line', (line) => lines.push(line));
    return { child, lines };
  };

  test('concurrent appends become few statements', async () => {
    await bus.ensureStream({ ...stream, name: 'FEW', subjects: ['few.>'] });
    const transactions = async () => {
      const row = await database.db.one(
        count,
        'select count(distinct at) as count from bus_messages where stream = $1',
        ['FEW'],
      );
      return row?.count ?? 0;
    };
    await Promise.all(Array.from({ length: 1000 }, () => bus.append('few.x', new Uint8Array(10))));
    assert.ok((await transactions()) <= 5, `${await transactions()} transactions`);
  });

  test('dead letters keep the message, the reason and the number of deliveries', async () => {
    const store = streamStore(database.db);
    await bus.ensureStream({ ...stream, name: 'DEAD', subjects: ['dead.>'] });
    await bus.append('dead.term', Buffer.from('poison'));
    await bus.append('dead.often', Buffer.from('ignored'));
    const limits = { ...config, ackWaitMs: 30, maxDeliver: 2 };
    const consuming = await bus.consume('DEAD', limits, async (batch) => {
      for (const message of batch) if (message.subject === 'dead.term') await message.term('cannot be read\0');
    });
    await until(async () => (await store.deadLetters('DEAD', 10)).length === 2);
    await consuming.close();
    const letters = await store.deadLetters('DEAD', 10);
    assert.deepEqual(
      letters.map(({ subject, reason, deliveries, data }) => [subject, reason, deliveries, String(data)]),
      [
        ['dead.often', 'delivered too often', 2, 'ignored'],
        ['dead.term', 'cannot be read', 1, 'poison'],
      ],
    );
  });

  test('an answer to an earlier delivery does not touch the present one; a late ack does', async () => {
    const store = streamStore(database.db);
    await store.ensureStream({ ...stream, name: 'LATE', subjects: ['late.>'] });
    await store.append('LATE', [{ subject: 'late.x', data: Buffer.from('x'), msgId: undefined }]);
    const worker = { ...config, filter: undefined, ackWaitMs: 1 };
    await store.ensureConsumer('LATE', worker);
    const first = await until(async () => (await store.fetch('LATE', 'worker')).deliveries[0]);
    const second = await until(async () => (await store.fetch('LATE', 'worker')).deliveries[0]);
    assert.deepEqual([first.deliveryCount, second.deliveryCount], [1, 2]);
    await store.term('LATE', 'worker', [{ ...first, reason: 'late' }]);
    await store.nak('LATE', 'worker', [{ ...first, delayMs: 1e9 }]);
    const third = await until(async () => (await store.fetch('LATE', 'worker')).deliveries[0]);
    assert.equal(third.deliveryCount, 3);
    await store.ack('LATE', 'worker', [first.seq]);
    assert.equal((await store.fetch('LATE', 'worker')).nextDueMs, undefined);
    assert.deepEqual(await store.deadLetters('LATE', 1), []);
  });

  test('what is too old goes: messages, ids', async () => {
    const old = { ...stream, name: 'OLD', subjects: ['old.>'], maxAgeMs: 1, duplicateWindowMs: 1 };
    await bus.ensureStream(old);
    await bus.append('old.x', Buffer.from('x'), { msgId: 'a' });
    const left = async () => {
      const row = await database.db.one(
        count,
        `select (select count(*) from bus_messages where stream = 'OLD') + (select count(*) from bus_message_ids where stream = 'OLD') as count`,
      );
      return row?.count;
    };
    await until(async () => (await left()) === 0);
    const counters = await database.db.one(
      count,
      "select messages + bytes as count from bus_streams where name = 'OLD'",
    );
    assert.equal(counters?.count, 0);
  });

  test('a message that the limits removed while it was out is not handed out again', async () => {
    const store = streamStore(database.db);
    const small = { ...stream, name: 'GONE', subjects: ['gone.>'], maxMessages: 1 };
    await store.ensureStream(small);
    await store.ensureConsumer('GONE', { ...config, filter: undefined, ackWaitMs: 1 });
    const message = { subject: 'gone.x', data: Buffer.from('x'), msgId: undefined };
    await store.append('GONE', [message]);
    assert.equal((await store.fetch('GONE', 'worker')).deliveries[0]?.seq, 1);
    await store.append('GONE', [message]);
    const next = await until(async () => (await store.fetch('GONE', 'worker')).deliveries);
    assert.deepEqual(
      next.map(({ seq }) => seq),
      [2],
    );
  });

  test('a handler that hangs does not stop the stream', async () => {
    await bus.ensureStream({ ...stream, name: 'HANG', subjects: ['hang.>'] });
    await bus.append('hang.x', Buffer.from('hang'));
    const got: string[] = [];
    let finish: () => void = () => undefined;
    const hanging = new Promise<void>((resolve) => {
      finish = resolve;
    });
    const consuming = await bus.consume('HANG', { ...config, ackWaitMs: 100, maxDeliver: 2 }, async (batch) => {
      got.push(...batch.map(({ data }) => String(data)));
      if (batch.some(({ data }) => String(data) === 'hang')) await hanging;
      else await ackAll(batch);
    });
    await until(() => got.length > 0);
    await bus.append('hang.x', Buffer.from('next'));
    await until(() => got.includes('next'));
    finish();
    await consuming.close();
  });

  test('while the database is away nothing is lost: appends are refused, consumers come back', async () => {
    const name = 'AWAY';
    const db = openDb(database.connection, { log: silentLog, name: 'away' });
    const other = embeddedBus({ store: streamStore(db), log: silentLog, lookMs: 60_000 });
    await other.ensureStream({ ...stream, name, subjects: ['away.>'] });
    const got = new Set<string>();
    await other.consume(name, { ...config, ackWaitMs: 500 }, async (batch) => {
      for (const { data } of batch) got.add(String(data));
      await ackAll(batch);
    });
    const acknowledged: string[] = [];
    for (let i = 0; i < 40; i++) {
      if (i % 10 === 5) {
        await database.db.run(
          "select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'troupe/away%'",
        );
      }
      await other.append('away.x', Buffer.from(String(i))).then(
        () => acknowledged.push(String(i)),
        (error: unknown) => assert.match(String(error), /BusError/),
      );
    }
    assert.ok(acknowledged.length > 30);
    await until(() => acknowledged.every((text) => got.has(text)));
    await other.close();
    await db.close();
  });

  test('a consumer killed with messages in hand: all come to the next one, and none twice that was acknowledged', async () => {
    const name = 'KILL';
    await bus.ensureStream({ ...stream, name, subjects: ['kill.>'] });
    const seqs = (await Promise.all(Array.from({ length: 200 }, () => bus.append('kill.x', Buffer.from('x'))))).map(
      ({ seq }) => seq,
    );
    const first = startChild(name, 'never-ack');
    await until(() => first.lines.length > 0, { timeoutMs: 60_000 });
    first.child.kill('SIGKILL');
    await once(first.child, 'close');
    const second = startChild(name, 'ack');
    await until(() => second.lines.filter((line) => line.startsWith('acked')).length > 30, { timeoutMs: 60_000 });
    second.child.kill('SIGKILL');
    await once(second.child, 'close');
    const handled = second.lines.flatMap((line) => (line.startsWith('handled ') ? [Number(line.slice(8))] : []));
    // What it handled last may be acknowledged although it could not say so any more.
    const done = new Set(second.lines.flatMap((line) => (line.startsWith('acked ') ? [Number(line.slice(6))] : [])));
    const got: number[] = [];
    const consuming = await bus.consume(name, { ...config, ackWaitMs: 1000, maxDeliver: 50 }, async (batch) => {
      got.push(...batch.map(({ seq }) => seq));
      await ackAll(batch);
    });
    await until(() => new Set([...handled, ...got]).size === seqs.length, { what: 'every message' });
    assert.deepEqual(
      got.filter((seq) => done.has(seq)),
      [],
      'handed out again after its ack',
    );
    assert.equal(new Set(got).size, got.length);
    await consuming.close();
  });
});
