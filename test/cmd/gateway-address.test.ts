/** Where the gateway answers, as processes without a gateway know it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { notedGateway, noteGateway } from '../../storage/gateway/gateway-address.ts';
import { setSetting } from '../../storage/settings.ts';
import { testDatabase } from '../support/database/database.ts';
import { silentLog } from '../support/log.ts';
import { until } from '../support/until.ts';

test('is what the gateway that started last wrote down, and is known soon after it moved', async (t) => {
  const database = await testDatabase();
  t.after(() => database.close());
  const { db } = database;
  let now = 0;
  const clock = { now: () => now };
  const before = await notedGateway(db, clock, silentLog);
  assert.equal(before(), undefined);
  // An address where names do not resolve, a name elsewhere.
  const first = { ssh: { host: '127.0.0.1', port: 2222 }, ports: { http: 8080, https: 8443 } };
  assert.deepEqual(await noteGateway(db, 'troupe.localhost', '0.0.0.0', { http: 8080, https: 8443, ssh: 2222 }), first);
  const address = await notedGateway(db, clock, silentLog);
  assert.deepEqual(address(), first);
  await noteGateway(db, 'cloud.test', '192.0.2.1', { http: 80, https: 443, ssh: 22 });
  assert.deepEqual(address(), first);
  now += 10_001;
  await until(() => address()?.ssh.port === 22);
  assert.deepEqual(address(), { ssh: { host: 'compute.cloud.test', port: 22 }, ports: { http: 80, https: 443 } });
  await until(() => before()?.ssh.port === 22);
});

test('is without ports when a gateway of an earlier version wrote it', async (t) => {
  const database = await testDatabase();
  t.after(() => database.close());
  await setSetting(database.db, 'ssh_address', '{"host":"cloud.test","port":22}');
  const address = await notedGateway(database.db, { now: () => 0 }, silentLog);
  assert.deepEqual(address(), { ssh: { host: 'cloud.test', port: 22 }, ports: undefined });
});
