/** Several processes of the notification service: one of them sends, and another goes on when it is gone. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { notifyNumbers } from '../../actors/notify/deps.ts';
import { notificationEvent } from '../../proto/notify/notification.ts';
import { addWebhook } from '../../proto/notify/webhooks.ts';
import { insertUser } from '../../storage/auth/users.ts';
import { streamStore } from '../../storage/bus/store.ts';
import { parseSealKey } from '../../storage/seal.ts';
import { embeddedBus } from '../../transports/bus/embedded.ts';
import { webhookSender } from '../../transports/clients/webhooks/sender.ts';
import { parseNetworks } from '../../transports/clients/webhooks/targets.ts';
import { testDatabase } from '../support/database/database.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { silentLog } from '../support/log.ts';
import { startReceiver } from '../support/notify/receiver.ts';
import { someone } from '../support/service/calls.ts';
import { SHORT_LEASES, settled } from '../support/service/node.ts';
import { openService } from '../support/service/open-service.ts';
import { until } from '../support/until.ts';

failOnLeaks();

test('one node sends, and when it is gone another one does', async (t) => {
  const database = await testDatabase();
  const { db } = database;
  const bus = embeddedBus({ store: streamStore(db), log: silentLog, lookMs: 200 });
  t.after(async () => {
    await Promise.all(nodes.map((node) => node.end()));
    await bus.close();
    await database.close();
  });
  const open = async () => {
    const numbers = notifyNumbers();
    const deliveries = {
      sealKey: parseSealKey('33'.repeat(32)),
      sender: webhookSender({ allowed: parseNetworks('127.0.0.0/8') ?? assert.fail() }),
      mailer: undefined,
      lookMs: 20,
    };
    const options = { database, bus, roles: ['notify'], timings: SHORT_LEASES };
    return Object.assign(await openService(t, 'notify', () => ({ numbers, deliveries }), options), { numbers });
  };
  const nodes = [await open(), await open()];
  const [a, b] = nodes;
  assert.ok(a && b);
  await settled(a, b);
  const receiver = await startReceiver(t);
  const ann = someone();
  assert.ok(await insertUser(db, { id: ann.userId, username: ann.userId, passwordHash: 'none' }));
  // Not only the node that sends knows of webhooks.
  await a.call(addWebhook, ann, { body: { url: `${receiver.url}/a`, categories: [] } });
  await b.call(addWebhook, ann, { body: { url: `${receiver.url}/b`, categories: [] } });
  const publish = async (many: number) => {
    for (let n = 0; n < many; n++) {
      const fields = { userId: ann.userId, title: `n${n}`, message: 'm', link: '', category: 'compute', scope: '' };
      const { subject, data, msgId } = notificationEvent('test', Date.now(), fields);
      await bus.append(subject, data, { msgId });
    }
  };
  await publish(10);
  await until(() => receiver.hooks.length >= 20, { what: 'both webhooks have all' });
  await until(() => a.numbers.webhooks + b.numbers.webhooks >= 20, { what: 'all are counted' });
  const [owner, other] = a.numbers.webhooks > 0 ? [a, b] : [b, a];
  assert.deepEqual([owner.numbers.webhooks, other.numbers.webhooks], [20, 0]);
  await owner.kill();
  await publish(5);
  await until(() => other.numbers.webhooks >= 10, { what: 'the other one goes on' });
  const sent = receiver.hooks.map(({ path, id }) => `${path} ${id}`);
  assert.deepEqual([sent.length, new Set(sent).size], [30, 30]);
});
