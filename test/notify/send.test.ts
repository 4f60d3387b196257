/** `troupe notify`: the service alone, and what operators send, through the real command line. */

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { z } from 'zod';
import { sessionTokens } from '../../actors/auth/tokens/issue-tokens.ts';
import { addUser } from '../../actors/auth/users/users.ts';
import { sendNotice } from '../../actors/notify/send.ts';
import { notificationSchema } from '../../proto/notify/endpoints.ts';
import { decodeNotification } from '../../proto/notify/notification.ts';
import { outboxStore } from '../../storage/outbox.ts';
import { websocket } from '../support/clients/websocket.ts';
import { request, spawnTroupe, troupe } from '../support/cluster/platform.ts';
import { testDatabase } from '../support/database/database.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { refused } from '../support/service/calls.ts';
import { tempDir } from '../support/temp.ts';
import { until } from '../support/until.ts';

failOnLeaks();

const JWT_SECRET = 'a secret of the tests, 32 bytes or more';
const PASSWORD = 'correct horse battery';

test('an operator tells one or all while nothing runs; the service delivers once it does', {
  timeout: 900_000,
}, async (t) => {
  const database = await testDatabase();
  t.after(() => database.close());
  const data = await tempDir(t);
  const [ann, bob] = [await addUser(database.db, 'ann', PASSWORD), await addUser(database.db, 'bob', PASSWORD)];
  const env = { DATABASE_URL: database.url, JWT_SECRET, LOG_LEVEL: 'info' };
  const send = (...args: string[]) => troupe(['notify', 'send', '--data', data, ...args], { env });

  const one = await send(
    '--user',
    'ann',
    '--title',
    'Hello',
    '--body',
    'to you',
    '--category',
    'auth',
    '--link',
    '/x',
    '--json',
  );
  assert.deepEqual([one.code, one.stdout], [0, '{"users":1}\n'], one.stderr);
  const all = await send('--everybody', '--title', 'Maintenance', '--body', 'at noon', '--scope', 's');
  assert.deepEqual([all.code, all.stdout], [0, 'Told all 2 users.\n'], all.stderr);
  for (const [args, message] of [
    [['--title', 'a', '--body', 'b'], /--user NAME, or --everybody/],
    [['--user', 'ann', '--everybody', '--title', 'a', '--body', 'b'], /--user NAME, or --everybody/],
    [['--user', 'zoe', '--title', 'a', '--body', 'b'], /There is no user zoe/],
    [['--user', 'ann', '--title', '', '--body', 'b'], /title must not be empty/],
    [['--user', 'ann', '--title', 'a'], /--body/],
  ] as const) {
    const bad = await send(...args);
    assert.equal(bad.code, 1, args.join(' '));
    assert.match(bad.stderr, message);
  }

  const own = { ...env, DATABASE_URL: (await database.serviceRoles()).urlOf('notify') };
  const child = spawnTroupe(['notify', '-addr', '127.0.0.1:0', '--json', '--domain', 'cloud.test'], own);
  t.after(() => child.kill('SIGKILL'));
  const [line] = await once(createInterface({ input: child.stdout }), 'line');
  const ready = z
    .object({ ready: z.literal(true), port: z.number(), domain: z.string() })
    .parse(JSON.parse(String(line)));
  assert.equal(ready.domain, 'cloud.test');
  const url = `http://127.0.0.1:${ready.port}`;
  const issue = sessionTokens(JWT_SECRET, 60, { now: Date.now });
  const { token } = await issue({ ...bob, isAdmin: false });
  const socket = await websocket(t, `${url.replace('http', 'ws')}/ws/notifications?since=0&token=${token}`);
  const told = notificationSchema.parse(await socket.json());
  assert.deepEqual([told.user_id, told.title, told.message, told.scope], [bob.id, 'Maintenance', 'at noon', 's']);
  const annToken = (await issue({ ...ann, isAdmin: false })).token;
  const list = async () =>
    z
      .array(notificationSchema)
      .parse((await request('GET', `${url}/api/notifications`, { token: annToken })).json.list);
  await until(async () => (await list()).length === 2);
  assert.deepEqual(
    (await list()).map(({ title, link, category }) => [title, link, category]),
    [
      ['Maintenance', '', ''],
      ['Hello', '/x', 'auth'],
    ],
  );

  assert.deepEqual((await request('GET', `${url}/healthz`)).json, { status: 'ok' });
  const { json } = await request('GET', `${url}/openapi.json`);
  assert.deepEqual(Object.keys(z.record(z.string(), z.unknown()).parse(json.paths)).sort(), [
    '/',
    '/api/notifications',
    '/api/notifications/mail',
    '/api/notifications/mail/verify',
    '/api/notifications/mutes',
    '/api/notifications/read-all',
    '/api/notifications/unread-count',
    '/api/notifications/webhooks',
    '/api/notifications/webhooks/{id}',
    '/api/notifications/webhooks/{id}/deliveries',
    '/api/notifications/webhooks/{id}/rotate',
    '/api/notifications/webhooks/{id}/test',
    '/api/notifications/{id}/read',
    '/healthz',
    '/metrics',
    '/openapi.json',
    '/ws/notifications',
  ]);
  const metrics = await (await fetch(`${url}/metrics`)).text();
  for (const number of [
    /^troupe_notify_stored_total 3$/m,
    /^troupe_notify_sockets 1$/m,
    /^troupe_notify_pushed_total 1$/m,
  ])
    assert.match(metrics, number);
  const ended = once(child, 'exit');
  child.kill('SIGTERM');
  assert.deepEqual((await ended)[0], 0);
  assert.ok([1001, 1012].includes((await socket.closed).code));
});

test('the service alone names what it lacks', async () => {
  const nothing = await troupe(['notify'], { env: { DATABASE_URL: '', JWT_SECRET: '' } });
  assert.equal(nothing.code, 1);
  assert.match(nothing.stderr, /needs DATABASE_URL and JWT_SECRET/);
  const address = await troupe(['notify', '-addr', 'nonsense'], {
    env: { DATABASE_URL: 'postgresql://x/y', JWT_SECRET },
  });
  assert.match(address.stderr, /--addr is nonsense/);
});

test('what is sent goes to the outbox and the audit trail in one transaction', async (t) => {
  const database = await testDatabase();
  t.after(() => database.close());
  const { db } = database;
  const clock = { now: () => 5 };
  for (const name of ['ann', 'bob', 'cid']) await addUser(db, name, PASSWORD);
  const notice = { title: 'a', message: 'b', link: '', category: '', scope: '' };
  assert.equal(await sendNotice(db, clock, 'everybody', notice), 3);
  const events = await outboxStore(db).take(10, 0);
  assert.equal(new Set(events.map(({ subject }) => subject)).size, 3);
  for (const { data, msgId, subject } of events) {
    const { userId, metadata, ...rest } = decodeNotification(data);
    assert.deepEqual(
      { ...rest, metadata },
      { ...notice, metadata: { eventId: msgId, source: 'operator', createdAt: 5 } },
    );
    assert.equal(subject, `notify.${userId}`);
  }
  const audited = z.object({ action: z.string(), detail: z.unknown() });
  assert.deepEqual(await db.one(audited, "select action, detail from audit_log where action like 'notification%'"), {
    action: 'notification.send',
    detail: { title: 'a', category: '', users: 3 },
  });
  await refused('not_found', sendNotice(db, clock, { username: 'zoe' }, notice));
  for (const bad of [{ title: '' }, { message: '' }, { title: 'x'.repeat(257) }, { scope: 'a\0b' }])
    await refused('invalid_request', sendNotice(db, clock, 'everybody', { ...notice, ...bad }));
  assert.equal((await outboxStore(db).take(10, 0)).length, 3);
});
