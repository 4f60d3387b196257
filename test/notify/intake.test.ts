/** What comes from the stream, good, poisonous, repeated or late, with the embedded bus. */

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import protobuf from 'protobufjs/light.js';
import { afterFailure, isPassing, readIncoming } from '../../actors/notify/intake-rules.ts';
import { encodeNotification, type Notification } from '../../proto/notify/notification.ts';
import type { Bus, StreamMessage } from '../../proto/ports/bus.ts';
import { NOTIFICATIONS_CONSUMER } from '../../proto/subjects.ts';
import { StorageError } from '../../storage/db.ts';
import { MAX_PAYLOAD_BYTES } from '../../transports/bus/subjects.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { type NotifyUnderTest, nextOf, openNotify, sample } from '../support/service/notify.ts';
import type { Person } from '../support/service/people.ts';
import { until } from '../support/until.ts';

failOnLeaks();

const metadata = (eventId: string) => ({ eventId, source: 'test', createdAt: Date.now() });
const encoded = (person: Person, more: Partial<Notification> = {}) =>
  encodeNotification({ ...sample(person.id), metadata: metadata(randomUUID()), ...more });

/** A message by hand, as another language's publisher writes it: with the field numbers alone. */
function byHand(fields: Readonly<Record<number, string | Uint8Array>>): Uint8Array {
  const writer = protobuf.Writer.create();
  for (const [number, value] of Object.entries(fields)) {
    writer.uint32((Number(number) << 3) | 2);
    if (typeof value === 'string') writer.string(value);
    else writer.bytes(value);
  }
  return writer.finish();
}

/** Hands the batch to the service's handler as a bus does, and records what the service answers. */
function messageOf(subject: string, data: Uint8Array, seq: number, deliveryCount = 1) {
  const answers: string[] = [];
  const message: StreamMessage = {
    ...{ subject, data, seq, deliveryCount },
    ack: async () => void answers.push('ack'),
    nak: async (delayMs) => void answers.push(`nak ${delayMs}`),
    term: async (reason) => void answers.push(`term ${reason}`),
  };
  return { message, answers };
}

/** A notify whose bus hands over nothing but what the test does. */
async function handHeld(t: Parameters<typeof openNotify>[0], options: Parameters<typeof openNotify>[1] = {}) {
  let handler: ((batch: readonly StreamMessage[]) => Promise<void>) | undefined;
  const wrapBus = (bus: Bus): Bus => ({
    publish: bus.publish.bind(bus),
    subscribe: bus.subscribe.bind(bus),
    request: bus.request.bind(bus),
    ensureStream: bus.ensureStream.bind(bus),
    append: bus.append.bind(bus),
    consume: async (_stream, config, given) => {
      assert.deepEqual(config, NOTIFICATIONS_CONSUMER);
      handler = given;
      return { close: async () => {} };
    },
    close: bus.close.bind(bus),
  });
  const notify = await openNotify(t, { ...options, wrapBus });
  const take = async (...messages: { message: StreamMessage }[]) => {
    await handler?.(messages.map(({ message }) => message));
    // Answers may still be on their way.
    await new Promise((resolve) => setImmediate(resolve));
  };
  return { notify, take };
}

const rows = (notify: NotifyUnderTest, person: Person) => notify.list(person, '?limit=100');

test("a message written by hand is a notification; its metadata may be absent or anybody's", async (t) => {
  const notify = await openNotify(t);
  const ann = await notify.person('ann');
  const base = { 2: ann.id, 3: 'Hello', 4: 'World' };
  const foreign = byHand({ 1: 'notification.created', 2: 'billing', 3: byHand({ 1: 'x' }) });
  await notify.bus.append(`notify.${ann.id}`, byHand(base));
  await notify.bus.append(`notify.${ann.id}`, byHand(base));
  await notify.bus.append(
    `notify.${ann.id}`,
    byHand({ 1: foreign, ...base, 5: '/bills', 6: 'billing', 7: 'may', 99: 'unknown' }),
  );
  await notify.bus.append(`notify.${ann.id}`, byHand({ 1: foreign, ...base, 5: '/bills', 6: 'billing', 7: 'june' }));
  await until(async () => (await rows(notify, ann)).length === 4);
  assert.deepEqual(
    (await rows(notify, ann)).map(({ title, message, link, category, scope }) => [
      title,
      message,
      link,
      category,
      scope,
    ]),
    [
      ['Hello', 'World', '/bills', 'billing', 'june'],
      ['Hello', 'World', '/bills', 'billing', 'may'],
      ['Hello', 'World', '', '', ''],
      ['Hello', 'World', '', '', ''],
    ],
  );
});

test('poison becomes a dead letter at once, with the reason, and holds up nothing', async (t) => {
  const notify = await openNotify(t);
  const [ann, bob] = [await notify.person('ann'), await notify.person('bob')];
  const nobody = 'zzzzzzzzzzzz';
  const poison: [string, Uint8Array, RegExp][] = [
    [`notify.${ann.id}`, Buffer.from('{"title":"json"}'), /not a notification|user_id/],
    [`notify.${ann.id}`, new Uint8Array(), /user_id/],
    [`notify.${ann.id}`, Buffer.alloc(MAX_PAYLOAD_BYTES, 0xff), /not a notification/],
    [`notify.${ann.id}`, encoded(bob), /different users/],
    [`notify.${ann.id}.more`, encoded(ann), /different users/],
    ['notify.all', encoded({ ...ann, id: 'all' }), /no id of a user/],
    [`notify.${nobody}`, encoded({ ...ann, id: nobody }), /no such user/],
    [`notify.${ann.id}`, encoded(ann, { title: '' }), /title is empty/],
    [`notify.${ann.id}`, encoded(ann, { message: '' }), /message is empty/],
    [`notify.${ann.id}`, encoded(ann, { title: 'x'.repeat(257) }), /title is longer/],
    [`notify.${ann.id}`, encoded(ann, { message: 'x'.repeat(8193) }), /message is longer/],
    [`notify.${ann.id}`, encoded(ann, { link: 'x'.repeat(2049) }), /link is longer/],
    [`notify.${ann.id}`, encoded(ann, { scope: 'a\0b' }), /scope contains NUL/],
    [`notify.${ann.id}`, encoded(ann, { metadata: metadata('e'.repeat(129)) }), /event_id/],
  ];
  for (const [subject, data] of poison) {
    await notify.bus.append(subject, data);
    await notify.publish(ann, { title: 'good' });
  }
  await until(async () => (await rows(notify, ann)).length === poison.length);
  await until(async () => (await notify.deadLetters()).length === poison.length);
  const letters = (await notify.deadLetters()).sort((a, b) => a.seq - b.seq);
  for (const [index, [subject, , reason]] of poison.entries()) {
    assert.equal(letters[index]?.subject, subject);
    assert.match(letters[index]?.reason ?? '', reason);
    assert.equal(letters[index]?.deliveries, 1);
  }
  assert.equal(notify.numbers.refused, poison.length);
  for (const text of ['xxxxx', 'json']) assert.ok(!JSON.stringify(notify.log.lines).includes(text));
});

test('an event is one row, whichever way it comes twice', async (t) => {
  const notify = await openNotify(t);
  const ann = await notify.person('ann');
  const event = encoded(ann);
  const subject = `notify.${ann.id}`;
  assert.equal((await notify.bus.append(subject, event, { msgId: 'a' })).duplicate, false);
  assert.equal((await notify.bus.append(subject, event, { msgId: 'a' })).duplicate, true);
  await notify.bus.append(subject, event, { msgId: 'b' });
  await notify.bus.append(subject, event);
  await notify.publish(ann, { title: 'last' });
  await until(() => notify.numbers.received === 4);
  // Counted after the commit.
  await until(() => notify.numbers.stored + notify.numbers.known === 4);
  assert.deepEqual([notify.numbers.stored, notify.numbers.known], [2, 2]);
  assert.equal((await rows(notify, ann)).length, 2);
});

test('the same event id to two users is two notifications', async (t) => {
  const notify = await openNotify(t);
  const [ann, bob] = [await notify.person('ann'), await notify.person('bob')];
  for (const person of [ann, bob])
    await notify.bus.append(`notify.${person.id}`, encoded(person, { metadata: metadata('e') }));
  await until(async () => (await rows(notify, ann)).length === 1 && (await rows(notify, bob)).length === 1);
});

test('a hundred redeliveries out of order, whole batches and twice in one, change nothing', async (t) => {
  const { notify, take } = await handHeld(t);
  const ann = await notify.person('ann');
  const socket = await notify.socket(t, ann);
  const events = Array.from({ length: 20 }, (_, index) => encoded(ann, { title: `n${index}` }));
  const subject = `notify.${ann.id}`;
  const answers: string[][] = [];
  for (let round = 0; round < 100; round++) {
    const batch = Array.from({ length: 1 + (round % 7) }, (_, index) => {
      const pick = (round * 13 + index * 5) % events.length;
      return messageOf(subject, events[pick] ?? new Uint8Array(), pick, 1 + (round % 4));
    });
    await take(...batch);
    answers.push(...batch.map(({ answers }) => answers));
  }
  await until(() => answers.every((given) => given.length === 1 && given[0] === 'ack'));
  const list = await rows(notify, ann);
  assert.equal(list.length, 20);
  for (const row of list.toReversed()) assert.deepEqual(await nextOf(socket), row);
  assert.equal(socket.queued(), 0);
});

test('a commit whose answer was lost is told to the sockets all the same', async (t) => {
  const { notify, take } = await handHeld(t);
  const ann = await notify.person('ann');
  const socket = await notify.socket(t, ann);
  // The first delivery was stored by a process that died before it told anybody.
  await notify.outside.run(
    `insert into notifications (user_id, event_id, title, message, link, category, scope, created_at)
     values ($1, 'e', 'kept', 'm', '', '', '', now())`,
    [ann.id],
  );
  await take(messageOf(`notify.${ann.id}`, encoded(ann, { metadata: metadata('e') }), 1, 2));
  assert.equal((await nextOf(socket)).title, 'kept');
  assert.equal((await rows(notify, ann)).length, 1);
});

test('acknowledged after the insert, not before; with the database away for a while nothing is given back', async (t) => {
  const { notify, take } = await handHeld(t, { holdMs: 5000 });
  const ann = await notify.person('ann');
  notify.db.failure = new StorageError('unavailable', 'gone');
  const one = messageOf(`notify.${ann.id}`, encoded(ann), 1);
  const taking = take(one);
  await until(() => notify.numbers.received === 1);
  assert.deepEqual(one.answers, []);
  notify.db.failure = undefined;
  await taking;
  await until(() => one.answers.length > 0);
  assert.deepEqual(one.answers, ['ack']);
  assert.equal((await rows(notify, ann)).length, 1);
});

test('with the database away for longer, messages are given back with a pause, and given up after five attempts', async (t) => {
  const { notify, take } = await handHeld(t, { holdMs: 0 });
  const ann = await notify.person('ann');
  notify.db.failure = new StorageError('unavailable', 'gone');
  const event = encoded(ann);
  for (const [deliveryCount, answer] of [
    [1, /^nak 60000$/],
    [4, /^nak 60000$/],
    [5, /^term not stored after 5 attempts: gone$/],
  ] as const) {
    const one = messageOf(`notify.${ann.id}`, event, 1, deliveryCount);
    await take(one);
    await until(() => one.answers.length > 0);
    assert.match(one.answers.join(), answer);
  }
  assert.deepEqual([notify.numbers.retried, notify.numbers.lost], [2, 1]);
});

test('what the bus does not take as an answer comes again and does no harm', async (t) => {
  const { notify, take } = await handHeld(t);
  const ann = await notify.person('ann');
  const { message } = messageOf(`notify.${ann.id}`, encoded(ann), 1);
  await take({ message: { ...message, ack: () => Promise.reject(new Error('the bus is away')) } });
  const again = messageOf(`notify.${ann.id}`, message.data, 1, 2);
  await take(again);
  await until(() => again.answers.length > 0);
  assert.deepEqual(again.answers, ['ack']);
  assert.equal((await rows(notify, ann)).length, 1);
  await until(() => notify.log.lines.some(({ level }) => level === 'warn'));
});

test('one that cannot be stored does not take its batch along, and is a dead letter after five attempts', async (t) => {
  const notify = await openNotify(t);
  const ann = await notify.person('ann');
  await notify.outside.script(`create function refuse() returns trigger language plpgsql as $$
    begin if new.title = 'cursed' then raise exception 'no'; end if; return new; end $$;
    create trigger refuse before insert on notifications for each row execute function refuse();`);
  const all = ['1', '2', '3', 'cursed', '4', '5', '6', '7'];
  await Promise.all(all.map((title) => notify.publish(ann, { title })));
  await until(async () => (await rows(notify, ann)).length === 7);
  await until(async () => (await notify.deadLetters()).length === 1, { timeoutMs: 60_000, what: 'it is given up' });
  const [letter] = await notify.deadLetters();
  assert.equal(letter?.deliveries, 5);
  assert.match(letter?.reason ?? '', /after 5 attempts: no/);
});

test('batches of thousands are stored whole, what is of one user in the order of the stream', async (t) => {
  const notify = await openNotify(t);
  // Of so many users some are stored beside the others.
  const people: Person[] = [];
  for (let n = 0; n < 6; n++) people.push(await notify.person(`user${n}`));
  const sockets = [];
  for (const person of people) sockets.push(await notify.socket(t, person));
  const each = 500;
  for (let sent = 0; sent < each; sent += 100)
    await Promise.all(
      Array.from({ length: 100 }, (_, index) =>
        Promise.all(people.map((person) => notify.publish(person, { title: String(sent + index) }))),
      ),
    );
  for (const socket of sockets) for (let n = 0; n < each; n++) assert.equal((await nextOf(socket)).title, String(n));
});

test('rules: whose fault a failure is, and what follows', () => {
  assert.ok(isPassing(new StorageError('unavailable', '')) && isPassing(new StorageError('timeout', '')));
  assert.ok(!isPassing(new StorageError('invalid', '')) && !isPassing(new Error('x')));
  assert.deepEqual(
    [1, 2, 3, 4].map((count) => afterFailure(new Error('x'), count)),
    [500, 1000, 2000, 4000].map((retryInMs) => ({ retryInMs })),
  );
  assert.deepEqual(afterFailure('x', 5), { giveUp: 'not stored after 5 attempts: x' });
});

test('rules: without an id of its own an event is named by its place, its time and its bytes', () => {
  const data = byHand({ 2: 'abcdefghijk1', 3: 'a', 4: 'b' });
  const name = (seq: number, bytes: Uint8Array, storedAt?: number) => {
    const read = readIncoming({
      subject: 'notify.abcdefghijk1',
      data: bytes,
      seq,
      ...(storedAt === undefined ? {} : { storedAt }),
    });
    assert.ok('notification' in read);
    return read.notification.eventId;
  };
  const other = byHand({ 2: 'abcdefghijk1', 3: 'a', 4: 'c' });
  assert.equal(name(1, data), name(1, data));
  assert.equal(new Set([name(1, data), name(2, data), name(1, other), name(1, data, 5), name(1, data, 6)]).size, 5);
});
