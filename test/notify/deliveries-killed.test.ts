/** A process that is killed while it sends: everything is sent again, under the same id. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { z } from 'zod';
import { sessionTokens } from '../../actors/auth/tokens/issue-tokens.ts';
import { newId } from '../../proto/ids.ts';
import { NOTIFICATIONS_STREAM, notificationEvent } from '../../proto/notify/notification.ts';
import { insertUser } from '../../storage/auth/users.ts';
import { streamStore } from '../../storage/bus/store.ts';
import { embeddedBus } from '../../transports/bus/embedded.ts';
import { request } from '../support/cluster/platform.ts';
import { testDatabase } from '../support/database/database.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { silentLog } from '../support/log.ts';
import { startMailServer } from '../support/notify/mail-server.ts';
import { ServiceProcess } from '../support/notify/process.ts';
import { startReceiver } from '../support/notify/receiver.ts';
import { freePort } from '../support/temp.ts';
import { until } from '../support/until.ts';

failOnLeaks();

const SECRET = 'a secret of the tests, 32 bytes or more';
const HOOKS = '/api/notifications/webhooks';
const MAIL = '/api/notifications/mail';
const COUNT = 12;

test('what a killed process was sending is sent again with the same id, and nothing is lost', {
  timeout: 900_000,
}, async (t) => {
  const database = await testDatabase();
  t.after(() => database.close());
  const { db } = database;
  const bus = embeddedBus({ store: streamStore(db), log: silentLog, lookMs: 200 });
  t.after(() => bus.close());
  await bus.ensureStream(NOTIFICATIONS_STREAM);
  // Neither answers to what comes first, so that the process is killed in the middle of it.
  let isHanging = true;
  const receiver = await startReceiver(t, () => (isHanging ? () => undefined : 200));
  const server = await startMailServer(t, {
    answer: (mail) => (isHanging && !mail.text.includes('The code is') ? 'hang' : '250 ok'),
  });
  const person = { id: newId(), username: 'ann', isAdmin: false };
  assert.ok(await insertUser(db, { ...person, passwordHash: 'none' }));
  const { token } = await sessionTokens(SECRET, 3600, { now: Date.now })(person);
  const port = await freePort();
  const roles = await database.serviceRoles();
  const service = new ServiceProcess(port, {
    DATABASE_URL: roles.urlOf('notify'),
    JWT_SECRET: SECRET,
    ENCRYPTION_KEY: '33'.repeat(32),
    WEBHOOK_ALLOW: '127.0.0.0/8',
    SMTP_URL: server.url,
    SMTP_FROM: 'notices@cloud.test',
    LOG_LEVEL: 'warn',
  });
  t.after(() => service.end());
  await service.start();
  const call = async (method: string, path: string, body?: unknown) => {
    const reply = await request(method, `http://127.0.0.1:${port}${path}`, {
      token,
      ...(body === undefined ? {} : { body }),
    });
    assert.ok(reply.status < 300, `${method} ${path}: ${reply.status} ${JSON.stringify(reply.json)}`);
    return reply.json;
  };
  const { id } = z.object({ id: z.string() }).parse(await call('POST', HOOKS, { url: receiver.url }));
  await call('PUT', MAIL, { address: 'ann@example.com' });
  const code = /The code is (\d{6})/.exec(server.mails[0]?.text ?? '')?.[1];
  await call('POST', `${MAIL}/verify`, { code });

  const sent: string[] = [];
  for (let n = 0; n < COUNT; n++) {
    const fields = { userId: person.id, title: `n${n}`, message: 'm', link: '', category: 'compute', scope: '' };
    const { subject, data, msgId } = notificationEvent('test', Date.now(), fields);
    await bus.append(subject, data, { msgId });
    sent.push(msgId);
  }
  const notices = () => server.mails.filter(({ text }) => !text.includes('The code is'));
  await until(() => receiver.hooks.length > 0 && notices().length > 0, { what: 'both are under way' });
  await service.kill();
  const [hook, mail] = [receiver.hooks[0], notices()[0]];
  assert.ok(hook && mail);
  isHanging = false;
  // What the dead process claimed counts as lost from now on, and not only half a minute later.
  await db.run('update webhook_deliveries set due_at = now() where due_at is not null');
  await db.run('update notification_mail set due_at = now() where due_at is not null');
  const before = receiver.hooks.length;
  await service.start();
  const arrived = () => new Set(receiver.hooks.slice(before).map((one) => one.id));
  await until(() => arrived().size === COUNT, { what: 'all are sent', timeoutMs: 60_000 });
  assert.deepEqual([...arrived()].sort(), [...sent].sort());
  assert.equal(receiver.hooks.find((one, at) => at >= before && one.id === hook.id)?.text, hook.text);
  // What was taken from the stream when the process died comes from it again later: nothing may wait before that.
  const mailed = () => notices().map(({ raw, text }) => raw + text);
  const titles = Array.from({ length: COUNT }, (_, n) => new RegExp(`\\bn${n}\\b`));
  await until(() => titles.every((title) => mailed().some((text) => title.test(text))), {
    what: 'all are mailed',
    timeoutMs: 120_000,
  });
  await until(async () => z.object({ waiting: z.number() }).parse(await call('GET', MAIL)).waiting === 0, {
    what: 'nothing waits',
    timeoutMs: 60_000,
  });
  const id1 = mail.headers.get('message-id');
  const again = notices().filter(({ headers }) => headers.get('message-id') === id1);
  assert.equal(again.length, 2);
  assert.equal(again[1]?.text, again[0]?.text);
  const { status } = z.object({ status: z.string() }).parse(await call('GET', `${HOOKS}/${id}`));
  assert.equal(status, 'ok');
});
