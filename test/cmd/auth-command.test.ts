/** `troupe auth` before it serves; how several serve is in test/cluster. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { troupe } from '../support/cluster/platform.ts';
import { testDatabase } from '../support/database/database.ts';

const JWT_SECRET = 'not a secret, but long enough for one';
const EMPTY = { DATABASE_URL: '', JWT_SECRET: '', NATS_URL: '' };

test('troupe auth without a database or a secret names what it needs', async () => {
  const nothing = await troupe(['auth'], { env: EMPTY });
  assert.deepEqual([nothing.code, nothing.stdout], [1, '']);
  assert.match(nothing.stderr, /^troupe: .*needs DATABASE_URL and JWT_SECRET/m);
  const half = await troupe(['auth'], { env: { ...EMPTY, JWT_SECRET } });
  assert.match(half.stderr, /needs DATABASE_URL, the same/);
});

test('troupe auth on an address that is none, or not to be had, says so and ends', async (t) => {
  const database = await testDatabase();
  t.after(() => database.close());
  const env = { ...EMPTY, DATABASE_URL: database.url, JWT_SECRET };
  const none = await troupe(['auth', '-addr', 'nonsense'], { env });
  assert.equal(none.code, 1);
  assert.match(none.stderr, /--addr is nonsense, but must be host:port/);
  const foreign = await troupe(['auth', '-addr', '192.0.2.77:7001'], { env });
  assert.equal(foreign.code, 1);
  assert.match(foreign.stderr, /^troupe: .*192\.0\.2\.77/m);
});
