/** Rules of mail: how many there are, what they hold, and that nothing of a user gets into a header as it came. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { headerText, mailOf, planMail } from '../../actors/notify/deliveries/mail-rules.ts';
import { nextTry } from '../../actors/notify/deliveries/webhook-rules.ts';

const HOUR = 3_600_000;
const NOW = 10 * HOUR;
const NEW = new Date(NOW);
const times = (many: number, at: number) => Array.from({ length: many }, (_, n) => new Date(at + n));

test('each notification has a mail of its own while the hour has room for all that wait', () => {
  assert.deepEqual(planMail([], 1, NEW, NOW), { take: 1 });
  assert.deepEqual(planMail([], 20, NEW, NOW), { take: 1 });
  assert.deepEqual(planMail(times(19, NOW - 1000), 1, NEW, NOW), { take: 1 });
});

test('what the hour has no room for is one mail with all of it', () => {
  assert.deepEqual(planMail([], 21, NEW, NOW), { take: 21 });
  assert.deepEqual(planMail(times(19, NOW - 1000), 2, NEW, NOW), { take: 2 });
});

test('what had to wait comes in one mail', () => {
  assert.deepEqual(planMail([], 5, new Date(NOW - 61_000), NOW), { take: 5 });
});

test('after twenty mails the next waits until the first is an hour old', () => {
  assert.deepEqual(planMail(times(20, NOW - 1000), 1, NEW, NOW), { notBefore: new Date(NOW - 1000 + HOUR) });
  assert.deepEqual(planMail(times(20, NOW - HOUR), 5, NEW, NOW + 1), { take: 5 });
});

test('a title becomes one line of a header, whatever it holds', () => {
  assert.equal(headerText('Hi\r\nBcc: all@example.com'), 'Hi Bcc: all@example.com');
  assert.equal(headerText('a\u0000b\u2028c\u202ed\u0085e'), 'a b c d e');
  assert.equal(headerText(`${'x'.repeat(118)}😀😀`).length, 119);
  assert.equal(headerText('lone \ud83d half'), 'lone half');
});

test('a mail has the same id at each try, and another for another user', () => {
  const at = new Date(0);
  const item = { eventId: 'e', title: 'T', message: 'M\u0007\r\nN', link: '/x', category: '', createdAt: at };
  const mail = { userId: 'u1', batch: 'e', address: 'a@example.com', attempt: 1, since: at, items: [item] };
  const first = mailOf(mail, 'cloud.test');
  assert.equal(mailOf({ ...mail, attempt: 2 }, 'cloud.test').id, first.id);
  assert.notEqual(mailOf({ ...mail, userId: 'u2' }, 'cloud.test').id, first.id);
  assert.match(first.text, /^M \nN\n\n\/x\n\n-- \n/);
  const both = mailOf({ ...mail, items: [item, { ...item, title: 'U' }] }, 'cloud.test');
  assert.equal(both.subject, '2 notifications from cloud.test');
  assert.match(both.text, /^T \(1970-01-01 00:00 UTC\)\nM \nN\n\nU /);
});

test('pauses grow from five seconds to two hours, and end after a day', () => {
  const most = () => 1;
  const pauses: number[] = [];
  let now = 0;
  for (let attempt = 1; ; attempt++) {
    const at = nextTry(attempt, 0, now, most);
    if (at === undefined) break;
    pauses.push(at - now);
    now = at;
  }
  assert.deepEqual(pauses.slice(0, 8), [5000, 30_000, 120_000, 600_000, 1_800_000, HOUR, 2 * HOUR, 2 * HOUR]);
  assert.ok(now > 22 * HOUR && now <= 24 * HOUR);
  assert.equal(
    nextTry(1, 0, 0, () => 0),
    2500,
  );
});
