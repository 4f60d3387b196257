/** What rows name by its digest, as the collection of the platform's own registry asks for it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pinnedImages } from '../../cmd/node/registry/pinned.ts';
import { testDatabase } from '../support/database/database.ts';
import { silentLog } from '../support/log.ts';

const HOST = 'registry.cloud.test';
const hex = (digit: string) => digit.repeat(64);

test('the image of a container, the one that waits, the one to go back to, the default one, and one of the catalog', async (t) => {
  const database = await testDatabase();
  t.after(() => database.close());
  const { db, url } = database;
  const user = 'pinning00000';
  await db.run(`insert into users (id, username, display_name, password_hash) values ($1, 'ann', 'Ann', 'x')`, [user]);
  await db.run(
    `insert into containers (id, user_id, slot, name, instance_type, memory_mb, storage_gb, pull_policy, mount_paths,
       ssh_enabled, desired, status, image, next_image, former_image)
     values ('pinneda00000', $1, 1, 'a', 'nano', 512, 5, 'IfNotPresent', '{/root}', true, 'stopped', 'stopped', $2, $3, $4),
       ('pinnedb00000', $1, 2, 'b', 'nano', 512, 5, 'IfNotPresent', '{/root}', true, 'stopped', 'stopped', $5, null, '')`,
    [user, ...['a', 'b', 'c'].map((digit) => `${HOST}/ann/app@sha256:${hex(digit)}`), `${HOST}/ann/app:1`],
  );
  await db.run(`update containers set former_image = $1 where id = 'pinnedb00000'`, [
    `troupe.invalid/node@sha256:${hex('e')}`,
  ]);
  const connection = { connectionString: url };
  const found = await pinnedImages(
    connection,
    { DEFAULT_IMAGE: `${HOST}/library/base:1@sha256:${hex('d')}`, CATALOG_IMAGES: `${HOST}/library/` },
    silentLog,
  );
  const names = ['ann/app', 'ann/app', 'ann/app', 'library/base'];
  for (const [at, digit] of ['a', 'b', 'c', 'd'].entries())
    assert.ok(found.has(`${names[at]}@${hex(digit)}`), `${digit} in its own repository`);
  assert.ok(found.has(`library/node@${hex('e')}`), 'an image of the catalog where it is in the registry');
  assert.ok(!found.has(`bob/app@${hex('a')}`), 'a digest in another repository is no concern of the row');
});

test('a database that is away is no answer: nothing is collected then', async () => {
  const away = { connectionString: 'postgres://nobody@127.0.0.1:1/none' };
  await assert.rejects(pinnedImages(away, { DEFAULT_IMAGE: undefined, CATALOG_IMAGES: undefined }, silentLog));
});
