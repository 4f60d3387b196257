/**
 * What processes say to each other on a real nats-server where somebody else listens to everything and may publish
 * anything.
 */

import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { connect, type Msg, type NatsConnection } from '@nats-io/transport-node';
import type { SharedSecret } from '../../proto/auth/shared-secret.ts';
import type { BusMessage } from '../../proto/ports/bus.ts';
import { AUTH_CONSUMER, AUTH_STREAM } from '../../proto/subjects.ts';
import { deadLetterSink, listDeadLetters } from '../../storage/bus/dead-letters.ts';
import {
  ENVELOPE_BYTES,
  Envelopes,
  FRESH_MS,
  REPLAY_WINDOW,
  ReplayWindow,
  SeenMessages,
} from '../../transports/bus/envelopes.ts';
import { type NatsBus, natsBus } from '../../transports/bus/nats.ts';
import { BUS_SECRET, skipWithoutNats, startNats } from '../support/bus/nats-server.ts';
import { testDatabase } from '../support/database/database.ts';
import { silentLog } from '../support/log.ts';
import { until } from '../support/until.ts';

const skip = skipWithoutNats();
const OTHER = 'another secret of another platform, 32 bytes';
/** First byte of an envelope for whoever listens now. */
const CORE = 3;
const text = (data: Uint8Array) => Buffer.from(data).toString();

async function setting(t: TestContext) {
  const nats = await startNats(t);
  const database = await testDatabase();
  t.after(() => database.close());
  const open = async (secret: SharedSecret = BUS_SECRET) => {
    const bus = natsBus({
      ...{ secret, address: { servers: [nats.server] }, name: 'test', log: silentLog },
      deadLetters: deadLetterSink(database.db),
    });
    t.after(() => bus.close());
    assert.ok(await bus.connected(10_000));
    return bus;
  };
  const stranger: NatsConnection = await connect({ servers: nats.server });
  t.after(() => stranger.close());
  const heard: Msg[] = [];
  stranger.subscribe('>', { callback: (_error, message) => void heard.push(message) });
  await stranger.flush();
  return { open, stranger, heard, db: database.db };
}

/** A bus that answers on a subject, and what it was asked. */
async function answering(open: (secret?: SharedSecret) => Promise<NatsBus>, secret?: SharedSecret) {
  const bus = await open(secret);
  const got: string[] = [];
  bus.subscribe('node.n1.*', ({ data, reply }: BusMessage) => {
    got.push(text(data));
    if (reply !== undefined) bus.publish(reply, Buffer.from(`answer to ${text(data)}`));
  });
  return { bus, got };
}

test('who listens to all subjects reads neither a call nor its answer', { skip }, async (t) => {
  const { open, heard } = await setting(t);
  await answering(open);
  const asker = await open();
  const answer = await asker.request('node.n1.ask', Buffer.from('password: hunter2hunter2'), 10_000);
  assert.equal(text(answer), 'answer to password: hunter2hunter2');
  await until(() => heard.length >= 2, { what: 'question and answer were overheard' });
  for (const { data, subject } of heard) assert.ok(!text(data).includes('hunter2'), subject);
});

test('a message that a stranger made up, changed or moved to another subject is not taken', { skip }, async (t) => {
  const { open, stranger, heard } = await setting(t);
  const { got } = await answering(open);
  const asker = await open();
  stranger.publish('node.n1.ask', '{"v":2,"k":"auth/user","i":"u1","f":"n2","m":{},"n":1,"a":0,"t":5000}', {
    reply: 'somewhere',
  });
  await asker.request('node.n1.ask', Buffer.from('a question'), 10_000);
  const sealed = heard.find(({ subject, data }) => subject === 'node.n1.ask' && data[0] === CORE)?.data;
  assert.ok(sealed !== undefined);
  // Of a number that was not seen yet, so that nothing but the tag refuses it.
  for (let at = 0; at < sealed.length; at++) {
    const changed = Buffer.from(sealed);
    changed[at] = (changed[at] ?? 0) ^ 1;
    stranger.publish('node.n1.ask', changed);
  }
  stranger.publish('node.n1.tell', sealed);
  stranger.publish('node.n1.ask', sealed.subarray(0, ENVELOPE_BYTES - 1));
  await stranger.flush();
  asker.publish('node.n1.tell', Buffer.from('the last'));
  await until(() => got.includes('the last'), { what: 'what came later arrives' });
  assert.deepEqual(got, ['a question', 'the last']);
});

test('a message that is sent once more, also with another reply subject, is not taken', { skip }, async (t) => {
  const { open, stranger, heard } = await setting(t);
  const { got } = await answering(open);
  const asker = await open();
  await asker.request('node.n1.ask', Buffer.from('delete it'), 10_000);
  const { data, reply = '' } = heard.find(({ subject }) => subject === 'node.n1.ask') ?? assert.fail('not overheard');
  stranger.publish('node.n1.ask', data, { reply });
  stranger.publish('node.n1.ask', data, { reply: 'mine' });
  await stranger.flush();
  asker.publish('node.n1.tell', Buffer.from('the last'));
  await until(() => got.includes('the last'));
  assert.deepEqual(got, ['delete it', 'the last']);
});

test('an answer that a stranger gives first is passed over, and the real one comes', { skip }, async (t) => {
  const { open, stranger } = await setting(t);
  stranger.subscribe('node.n1.*', {
    callback: (_error, message) => void message.respond('{"v":2,"r":{"ok":{"token":"forged"}}}'),
  });
  await stranger.flush();
  await answering(open);
  const asker = await open();
  for (let n = 0; n < 20; n++)
    assert.equal(text(await asker.request('node.n1.ask', Buffer.from(`${n}`), 10_000)), `answer to ${n}`);
});

test('buses of another secret do not hear each other; while it is rotated old and new ones do', { skip }, async (t) => {
  const { open } = await setting(t);
  const { got } = await answering(open, [BUS_SECRET, OTHER]);
  const another = await open(OTHER);
  const neither = await open('a third secret that nobody else has: 32 bytes');
  neither.publish('node.n1.tell', Buffer.from('from the third'));
  await assert.rejects(neither.request('node.n1.ask', Buffer.from('from the third'), 300), { code: 'timeout' });
  another.publish('node.n1.tell', Buffer.from('from the other'));
  const present = await open();
  await present.request('node.n1.ask', Buffer.from('from the present'), 10_000);
  await until(() => got.length >= 2);
  assert.deepEqual(got.toSorted(), ['from the other', 'from the present']);
});

test('events of the platform in a stream count only when the platform wrote them; others are no dead letters', {
  skip,
}, async (t) => {
  const { open, stranger, heard, db } = await setting(t);
  const bus = await open();
  await bus.ensureStream(AUTH_STREAM);
  const got: string[] = [];
  const consuming = await bus.consume(AUTH_STREAM.name, AUTH_CONSUMER, async (batch) => {
    for (const message of batch) {
      got.push(`${message.subject} ${text(message.data)}`);
      await message.ack();
    }
  });
  stranger.publish('auth.user.forged000000.changed', 'forged');
  await stranger.flush();
  await bus.append('auth.user.real00000000.changed', Buffer.from('real'), { msgId: 'm1' });
  await until(() => got.length > 0);
  const sealed = heard.find(({ subject }) => subject === 'auth.user.real00000000.changed')?.data ?? assert.fail();
  assert.ok(!text(sealed).includes('real'));
  // Of another user.
  stranger.publish('auth.user.forged000000.changed', sealed);
  await stranger.flush();
  await bus.append('auth.user.real00000000.changed', Buffer.from('last'), { msgId: 'm2' });
  await until(() => got.length > 1);
  assert.deepEqual(got, ['auth.user.real00000000.changed real', 'auth.user.real00000000.changed last']);
  await consuming.close();
  assert.deepEqual(await listDeadLetters(db, undefined, 10), []);
});

test('a message counts for two minutes, and a subscription that has forgotten a sender takes nothing old of it', () => {
  let now = 1_700_000_000_000;
  const clock = { isShared: true, now: () => now } as const;
  const reader = new Envelopes(BUS_SECRET, clock);
  const sealed = new Envelopes(BUS_SECRET, clock).seal('core', 'a', Buffer.from('x'));
  now += FRESH_MS;
  assert.equal(text(reader.open('a', sealed)), 'x');
  now += 1;
  assert.throws(() => reader.open('a', sealed), { code: 'stale' });
  now -= 2 * FRESH_MS + 2;
  assert.throws(() => reader.open('a', sealed), { code: 'stale' });

  const seen = new SeenMessages();
  seen.check('first', 1, 1000);
  for (let n = 0; n < 10_000; n++) seen.check(`sender ${n}`, 1, 2000 + n);
  assert.throws(() => seen.check('first', 1, 1000), { code: 'replayed' });
  assert.throws(() => seen.check('sender 9999', 1, 12_999), { code: 'replayed' });
  seen.check('new', 1, 20_000);
});

test('numbers count once, in any order within the window', () => {
  const window = new ReplayWindow();
  assert.ok([1, 3, 2, 64, 33].every((number) => window.accept(number)));
  assert.ok([1, 2, 3, 33, 64].every((number) => !window.accept(number)));
  const far = 10 * REPLAY_WINDOW;
  assert.ok(window.accept(far) && window.accept(far - REPLAY_WINDOW + 1));
  assert.ok(!window.accept(far - REPLAY_WINDOW) && !window.accept(65) && !window.accept(far));
  // Against a plain set.
  const plain = new Set<number>();
  const other = new ReplayWindow();
  let newest = 0;
  for (let n = 0; n < 200_000; n++) {
    const number = Math.max(1, newest + Math.floor(Math.random() * 6000) - 5000);
    assert.equal(other.accept(number), !plain.has(number), `${number} after ${newest}`);
    plain.add(number);
    newest = Math.max(newest, number);
  }
});
