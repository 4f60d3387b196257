/** The address of the SSH gateway, as processes without a gateway know it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { notedSshAddress, noteSshAddress } from '../../storage/gateway/ssh-access.ts';
import { testDatabase } from '../support/database/database.ts';
import { silentLog } from '../support/log.ts';
import { until } from '../support/until.ts';

test('is what the gateway that started last wrote down, and is known soon after it moved', async (t) => {
  const database = await testDatabase();
  t.after(() => database.close());
  const { db } = database;
  let now = 0;
  const clock = { now: () => now };
  const before = await notedSshAddress(db, clock, silentLog);
  assert.equal(before(), undefined);
  // An address where names do not resolve, a name elsewhere.
  assert.deepEqual(await noteSshAddress(db, 'troupe.localhost', '0.0.0.0', 2222), { host: '127.0.0.1', port: 2222 });
  const address = await notedSshAddress(db, clock, silentLog);
  assert.deepEqual(address(), { host: '127.0.0.1', port: 2222 });
  await noteSshAddress(db, 'cloud.test', '192.0.2.1', 22);
  assert.deepEqual(address(), { host: '127.0.0.1', port: 2222 });
  now += 10_001;
  await until(() => address()?.port === 22);
  assert.deepEqual(address(), { host: 'compute.cloud.test', port: 22 });
  await until(() => before()?.port === 22);
});
