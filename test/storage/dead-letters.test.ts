/** Dead letters of the embedded bus, by the command's own functions on the database. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  deadLetterSink,
  discardDeadLetters,
  findDeadLetter,
  listDeadLetters,
  replayDeadLetters,
} from '../../storage/bus/dead-letters.ts';
import { streamStore } from '../../storage/bus/store.ts';
import { outboxStore } from '../../storage/outbox.ts';
import { embeddedBus } from '../../transports/bus/embedded.ts';
import { relayOutbox } from '../../transports/bus/relay.ts';
import { testDatabase } from '../support/database/database.ts';
import { silentLog } from '../support/log.ts';
import { until } from '../support/until.ts';

test('a message of the embedded bus that was given up is sent again, once, and handled', async (t) => {
  const { db, close } = await testDatabase();
  const bus = embeddedBus({ store: streamStore(db), log: silentLog });
  const ending = new AbortController();
  const relay = relayOutbox({ store: outboxStore(db), bus, log: silentLog, signal: ending.signal });
  t.after(async () => {
    ending.abort();
    await relay;
    await bus.close();
    await close();
  });
  await bus.ensureStream({
    ...{ name: 'S', subjects: ['s.>'], maxMessages: 100, maxBytes: 1 << 20, maxAgeMs: 1e6, duplicateWindowMs: 60_000 },
  });
  let fail = true;
  const got: string[] = [];
  await bus.consume('S', { durable: 'd', ackWaitMs: 30_000, maxDeliver: 2, maxAckPending: 10 }, async (batch) => {
    for (const message of batch) {
      if (fail) throw new Error('not now');
      got.push(`${message.subject} ${message.msgId}`);
      await message.ack();
    }
  });
  await bus.append('s.x', Buffer.from('x'), { msgId: 'the publisher’s id' });
  const letter = await until(async () => (await listDeadLetters(db, 'S', 10))[0]);
  assert.deepEqual([letter.msgId, letter.replayedAt, letter.deliveries], ['the publisher’s id', undefined, 2]);
  fail = false;
  assert.deepEqual(await replayDeadLetters(db, { ids: [letter.id, 999] }, false), [letter.id]);
  assert.deepEqual(await replayDeadLetters(db, { stream: undefined }, false), []);
  await until(() => got.length === 1);
  assert.deepEqual(got, [`s.x dead-letter-${letter.id}-1`]);
  assert.ok((await findDeadLetter(db, letter.id))?.replayedAt !== undefined);
  assert.equal(await discardDeadLetters(db, { stream: 'OTHER' }), 0);
  assert.equal(await discardDeadLetters(db, { ids: [letter.id] }), 1);
  assert.equal(await findDeadLetter(db, letter.id), undefined);
});

test('a letter that is kept already changes nothing; a later message of its number is another', async (t) => {
  const { db, close } = await testDatabase();
  t.after(close);
  const sink = deadLetterSink(db);
  const letter = {
    stream: 'N',
    durable: 'd',
    seq: 1,
    storedAt: 1_700_000_000_123,
    subject: 'n.x',
    data: Buffer.from('x'),
  };
  const first = { ...letter, msgId: undefined, deliveries: 1, reason: 'cannot\0 be read' };
  await sink.add([first]);
  await sink.add([
    { ...first, reason: 'delivered too often' },
    { ...first, storedAt: first.storedAt + 1 },
  ]);
  const letters = await listDeadLetters(db, undefined, 10);
  assert.deepEqual(
    letters.map(({ storedAt, reason }) => [storedAt, reason]),
    [
      [1_700_000_000_124, 'cannot be read'],
      [1_700_000_000_123, 'cannot be read'],
    ],
  );
});
