/** Notifications by mail, to a real SMTP server: proven addresses only, at least once, and not too many. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { z } from 'zod';
import { parseSealKey } from '../../storage/seal.ts';
import { smtpMailer } from '../../transports/clients/mail/smtp.ts';
import { webhookSender } from '../../transports/clients/webhooks/sender.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { certificate } from '../support/notify/certificate.ts';
import { type ReceivedMail, startMailServer } from '../support/notify/mail-server.ts';
import { openNotify } from '../support/service/notify.ts';
import type { Person } from '../support/service/people.ts';
import { until } from '../support/until.ts';

failOnLeaks();

const SEAL_KEY = parseSealKey('33'.repeat(32));
const MAIL = '/api/notifications/mail';
const HOUR = 3_600_000;
/** Longer than the clock is moved in any test, seconds. */
const LONG = 100 * 86_400;
const viewSchema = z.strictObject({
  available: z.boolean(),
  address: z.string().nullable(),
  categories: z.array(z.string()),
  verified: z.boolean(),
  waiting: z.number(),
  error: z.string(),
});

async function opened(t: TestContext, answer?: (mail: ReceivedMail, n: number) => string) {
  const server = await startMailServer(t, answer === undefined ? {} : { answer });
  const mailer = smtpMailer({
    url: server.url,
    from: 'Troupe <notices@cloud.test>',
    domain: 'cloud.test',
    isPlainAllowed: false,
  });
  const sender = webhookSender({ allowed: () => false });
  const notify = await openNotify(t, { deliveries: { sealKey: SEAL_KEY, sender, mailer, lookMs: 20 } });
  const shown = async (person: Person) => viewSchema.parse((await notify.get(person, MAIL)).json);
  const set = (person: Person, body: object) => notify.request(person, 'PUT', MAIL, body);
  const verify = (person: Person, code: string) => notify.request(person, 'POST', `${MAIL}/verify`, { code });
  const codeOf = (mail: ReceivedMail | undefined) =>
    /The code is (\d{6})\./.exec(mail?.text ?? '')?.[1] ?? assert.fail();
  return Object.assign(notify, {
    ...{ server, shown, set, verify, codeOf },
    /** Lets the person have mail. */
    async mailed(person: Person, address: string, categories: readonly string[] = []) {
      assert.equal((await set(person, { address, categories })).status, 200);
      assert.equal((await verify(person, codeOf(server.mails.at(-1)))).status, 200);
    },
    /** Mails that are not codes. */
    notices: () => server.mails.filter(({ text }) => !text.includes('The code is')),
  });
}

test('mail is off until the address was proven, and then has what its user is told', async (t) => {
  const notify = await opened(t);
  const ann = await notify.person('ann');
  const off = { available: true, address: null, categories: [], verified: false, waiting: 0, error: '' };
  assert.deepEqual(await notify.shown(ann), off);
  assert.equal((await notify.set(ann, { address: 'ann@example.com' })).status, 200);
  assert.deepEqual(await notify.shown(ann), { ...off, address: 'ann@example.com' });
  const [code] = notify.server.mails;
  assert.equal(code?.to, 'ann@example.com');
  await notify.stored(ann, ['before']);
  const right = notify.codeOf(code);
  const wrong = await notify.verify(ann, right === '000000' ? '000001' : '000000');
  assert.deepEqual([wrong.status, wrong.json.code], [409, 'conflict']);
  assert.equal((await notify.verify(ann, right)).status, 200);
  assert.equal((await notify.shown(ann)).verified, true);
  const eventId = await notify.publish(ann, {
    title: 'Backup für "web"',
    message: 'Größe: 5 GB\nok',
    link: '/backups',
  });
  const mail = await until(() => notify.notices()[0]);
  assert.equal(mail.to, 'ann@example.com');
  assert.match(mail.text, /^Größe: 5 GB\nok\n\n\/backups\n\n-- \nYou get this mail because/);
  assert.match(mail.headers.get('message-id') ?? '', /^<[0-9a-f]{64}@cloud\.test>$/);
  assert.equal(mail.headers.get('auto-submitted'), 'auto-generated');
  assert.match(mail.headers.get('from') ?? '', /notices@cloud\.test/);
  assert.ok(eventId !== '' && !mail.raw.includes('before'));
  await until(async () => (await notify.shown(ann)).waiting === 0);
});

test('a mail that the server does not take comes again under the same Message-ID', async (t) => {
  const notify = await opened(t, (_, n) => (n === 2 || n === 3 ? '451 later' : '250 ok'));
  const ann = await notify.person('ann', LONG);
  await notify.mailed(ann, 'ann@example.com');
  await notify.publish(ann, { title: 'kept' });
  await until(async () => (await notify.shown(ann)).error !== '');
  assert.equal((await notify.shown(ann)).error, 'The mail server does not take it at the moment.');
  notify.clock.advance(5000);
  await until(() => notify.notices().length === 2);
  await notify.publish(ann, { title: 'later' });
  notify.clock.advance(30_000);
  await until(() => notify.notices().length >= 4);
  const ids = notify.notices().map(({ headers }) => headers.get('message-id'));
  assert.equal(new Set(ids.slice(0, 3)).size, 1);
  assert.deepEqual(
    notify.notices().map(({ headers }) => headers.get('subject')),
    ['kept', 'kept', 'kept', 'later'],
  );
  await until(async () => (await notify.shown(ann)).error === '');
});

test('a mail that the server will never take is given up, and the next one is sent', async (t) => {
  const notify = await opened(t, (_, n) => (n === 2 ? '550 no such mailbox' : '250 ok'));
  const ann = await notify.person('ann');
  await notify.mailed(ann, 'ann@example.com');
  await notify.publish(ann, { title: 'one' });
  await until(async () => (await notify.shown(ann)).error === 'The mail server refuses it (550).');
  await notify.publish(ann, { title: 'two' });
  await until(() => notify.notices().length === 2);
  await until(async () => (await notify.shown(ann)).error === '');
});

test('more than twenty an hour are one mail with all of them', async (t) => {
  const notify = await opened(t);
  const ann = await notify.person('ann', LONG);
  await notify.mailed(ann, 'ann@example.com');
  for (let n = 1; n <= 20; n++) {
    await notify.publish(ann, { title: `n${n}` });
    await until(() => notify.notices().length === n, { what: `mail ${n}` });
  }
  for (let n = 21; n <= 25; n++) await notify.publish(ann, { title: `n${n}` });
  await until(async () => (await notify.shown(ann)).waiting === 5);
  assert.equal(notify.notices().length, 20);
  notify.clock.advance(HOUR);
  await until(async () => (await notify.shown(ann)).waiting === 0);
  const [digest, ...more] = notify.notices().slice(20);
  assert.equal(more.length, 0);
  assert.equal(digest?.headers.get('subject'), '5 notifications from cloud.test');
  for (let n = 21; n <= 25; n++) assert.match(digest?.text ?? '', new RegExp(`^n${n} \\(`, 'm'));
});

test('a burst is one mail', async (t) => {
  const notify = await opened(t);
  const ann = await notify.person('ann');
  await notify.mailed(ann, 'ann@example.com');
  // They wait together, because the server is asked for none of them before.
  await notify.outside.run("update notification_mail set due_at = now() + interval '1 day'");
  for (let n = 1; n <= 30; n++) await notify.publish(ann, { title: `burst ${n}` });
  await until(async () => (await notify.shown(ann)).waiting === 30);
  await notify.outside.run('update notification_mail set due_at = now()');
  await until(async () => (await notify.shown(ann)).waiting === 0);
  const [mail, ...more] = notify.notices();
  assert.equal(more.length, 0);
  assert.equal(mail?.headers.get('subject'), '30 notifications from cloud.test');
  for (let n = 1; n <= 30; n++) assert.match(mail?.text ?? '', new RegExp(`^burst ${n} \\(`, 'm'));
});

test('nothing that a user writes becomes a header of its own', async (t) => {
  const notify = await opened(t);
  const ann = await notify.person('ann');
  await notify.mailed(ann, 'ann@example.com');
  await notify.publish(ann, { title: 'Hi\r\nBcc: all@example.com\r\n\r\nbody', message: '.\r\nQUIT\r\n.\r\nlast' });
  const mail = await until(() => notify.notices()[0]);
  assert.ok(!mail.headers.has('bcc') && !mail.headers.has('quit'));
  assert.match(mail.headers.get('subject') ?? '', /^Hi Bcc: all@example\.com body$/);
  assert.match(mail.text, /last/);
  for (const address of [
    'a@example.com\r\nRCPT TO:<b@example.com>',
    'a@b@example.com',
    '"a b"@example.com',
    'a@x',
    'a,b@x.com',
  ])
    assert.equal((await notify.set(ann, { address })).status, 400, address);
});

test('a code is good for five guesses and a quarter of an hour, and five are sent in an hour', async (t) => {
  const notify = await opened(t);
  const ann = await notify.person('ann', LONG);
  await notify.set(ann, { address: 'ann@example.com' });
  const first = notify.codeOf(notify.server.mails.at(-1));
  const other = first === '000000' ? '000001' : '000000';
  for (let n = 0; n < 5; n++) assert.equal((await notify.verify(ann, other)).status, 409);
  assert.match(String((await notify.verify(ann, first)).json.error), /No code is good now/);
  await notify.set(ann, { address: 'ann@example.com' });
  const second = notify.codeOf(notify.server.mails.at(-1));
  notify.clock.advance(15 * 60_000);
  assert.match(String((await notify.verify(ann, second)).json.error), /No code is good now/);
  for (let n = 0; n < 3; n++) assert.equal((await notify.set(ann, { address: `a${n}@example.com` })).status, 200);
  const sixth = await notify.set(ann, { address: 'ann@example.com' });
  assert.deepEqual([sixth.status, sixth.json.code], [403, 'limit_reached']);
  assert.equal(notify.server.mails.length, 5);
  // Turning mail off does not give more.
  await notify.set(ann, { address: null });
  assert.equal((await notify.set(ann, { address: 'ann@example.com' })).status, 403);
  notify.clock.advance(HOUR);
  assert.equal((await notify.set(ann, { address: 'ann@example.com' })).status, 200);
});

test('categories, mutes and turning it off apply, and another address is to be proven again', async (t) => {
  const notify = await opened(t);
  const ann = await notify.person('ann');
  await notify.mailed(ann, 'ann@example.com', ['backup', 'compute']);
  await notify.request(ann, 'PUT', '/api/notifications/mutes', { category: 'compute', scope: 'quiet' });
  await notify.publish(ann, { title: 'other', category: 'auth' });
  await notify.publish(ann, { title: 'quiet', category: 'compute', scope: 'quiet' });
  await notify.publish(ann, { title: 'wanted', category: 'backup' });
  await until(() => notify.notices().length > 0);
  assert.equal(notify.notices()[0]?.headers.get('subject'), 'wanted');
  const changed = await notify.set(ann, { address: 'ann@example.com', categories: [] });
  assert.deepEqual([changed.json.verified, changed.json.categories], [true, []]);
  const moved = await notify.set(ann, { address: 'ann@example.org' });
  assert.deepEqual([moved.json.verified, moved.json.address], [false, 'ann@example.org']);
  const off = await notify.set(ann, { address: null });
  assert.deepEqual([off.json.address, off.json.verified], [null, false]);
  await notify.stored(ann, ['after']);
  assert.equal(notify.notices().length, 1);
});

test('without a mail server mail is not there', async (t) => {
  const notify = await openNotify(t);
  const ann = await notify.person('ann');
  assert.equal((await notify.get(ann, MAIL)).json.available, false);
  const refused = await notify.request(ann, 'PUT', MAIL, { address: 'ann@example.com' });
  assert.deepEqual([refused.status, refused.json.code], [503, 'not_configured']);
});

test('mail goes over TLS where the server has it, and to another machine only so', async (t) => {
  const tls = await certificate(t, 'mail.example');
  const plain = await startMailServer(t);
  const secure = await startMailServer(t, { tls });
  const mail = { to: 'ann@example.com', subject: 's', text: 't', id: 'i' };
  // An address of this machine that does not look like one: as if it were another's.
  const elsewhere = (port: number) => `smtp://0.0.0.0:${port}`;
  const send = (url: string, more: { readonly ca?: string; readonly isPlainAllowed?: boolean } = {}) =>
    smtpMailer({ url, from: 'n@cloud.test', domain: 'cloud.test', isPlainAllowed: false, ...more }).send(mail);
  await assert.rejects(send(elsewhere(plain.port)), { name: 'MailError', code: 'unavailable' });
  assert.equal(plain.mails.length, 0);
  await send(elsewhere(plain.port), { isPlainAllowed: true });
  assert.equal(plain.mails[0]?.isTls, false);
  // Its certificate is of nobody who is trusted.
  await assert.rejects(send(elsewhere(secure.port)), { name: 'MailError', code: 'unavailable' });
  await send(elsewhere(secure.port), { ca: tls.cert });
  assert.deepEqual(
    secure.mails.map(({ isTls }) => isTls),
    [true],
  );
});
