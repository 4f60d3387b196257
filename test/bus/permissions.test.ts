/** The users that docs/reference/messaging.md gives to a nats-server: the platform may do all it needs, another program may notify, and nothing else. */

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { connect } from '@nats-io/transport-node';
import { NOTIFICATIONS_STREAM } from '../../proto/notify/notification.ts';
import { AUTH_STREAM, NOTIFICATIONS_CONSUMER } from '../../proto/subjects.ts';
import { natsBus } from '../../transports/bus/nats.ts';
import { BUS_SECRET, skipWithoutNats, startNats } from '../support/bus/nats-server.ts';
import { silentLog } from '../support/log.ts';
import { projectRoot } from '../support/project.ts';
import { until } from '../support/until.ts';

test('with the users of docs/reference/messaging.md the platform works, and another program can only notify', {
  skip: skipWithoutNats(),
}, async (t) => {
  const page = await readFile(join(projectRoot, 'docs/reference/messaging.md'), 'utf8');
  const [configuration = ''] = /^authorization \{\n[\s\S]*?\n\}$/m.exec(page) ?? [];
  const passwordOf = (user: string) =>
    new RegExp(`user: "${user}", password: "([^"]+)"`).exec(configuration)?.[1] ?? '';
  const nats = await startNats(t, { configuration });
  const bus = natsBus({
    ...{ secret: BUS_SECRET, name: 'platform', log: silentLog, deadLetters: { add: async () => {} } },
    address: { servers: [nats.server], user: 'troupe', password: passwordOf('troupe') },
  });
  t.after(() => bus.close());
  assert.ok(await bus.connected(10_000));
  await bus.ensureStream(NOTIFICATIONS_STREAM);
  await bus.ensureStream(AUTH_STREAM);
  const got: string[] = [];
  const consuming = await bus.consume(NOTIFICATIONS_STREAM.name, NOTIFICATIONS_CONSUMER, async (batch) => {
    for (const message of batch) {
      got.push(message.subject);
      await message.ack();
    }
  });
  t.after(() => consuming.close());
  bus.subscribe('node.n1.*', ({ data, reply }) => {
    got.push('node.n1');
    if (reply !== undefined) bus.publish(reply, data);
  });
  await bus.request('node.n1.ask', Buffer.from('x'), 10_000);
  assert.deepEqual(got.splice(0), ['node.n1']);

  const program = await connect({ servers: nats.server, user: 'shop', pass: passwordOf('shop') });
  t.after(() => program.close());
  const refused: string[] = [];
  void (async () => {
    for await (const status of program.status()) if (status.type === 'error') refused.push(String(status.error));
  })();
  for (const subject of [
    'node.n1.ask',
    'auth.user.u1.changed',
    '$JS.API.STREAM.DELETE.AUTH',
    '$KV.b.k',
    'notifications.stored',
    'notify.u1.more',
  ])
    program.publish(subject, 'x');
  program.subscribe('>', { callback: () => {} });
  await program.flush();
  await until(() => refused.length >= 7, { what: 'all of it was refused' });
  program.publish('notify.u1', 'a notification');
  await until(() => got.length > 0);
  assert.deepEqual(got, ['notify.u1']);
});
