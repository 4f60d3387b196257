import assert from 'node:assert/strict';
import { test } from 'node:test';
import { getOrCreateSetting, getSetting, setSetting } from '../../storage/settings.ts';
import { testDatabase } from '../support/database/database.ts';

test('settings are kept, changed, and made once by those who race', async () => {
  const { db, close } = await testDatabase();
  try {
    for (const key of ['platform_ssh_key', 'installation', 'ssh_address', 'registry_certificate:A:B']) {
      assert.equal(await getSetting(db, key), undefined);
      await setSetting(db, key, '1');
      await setSetting(db, key, '2');
      assert.equal(await getSetting(db, key), '2');
      assert.equal(await getOrCreateSetting(db, key, () => assert.fail('it exists')), '2');
    }
    assert.equal(await db.run('select from settings'), 4);
    assert.equal(await db.run('select from open_settings'), 3);
    let made = 0;
    const make = async () => {
      made += 1;
      return `value ${made}`;
    };
    const racers = Array.from({ length: 8 }, () => getOrCreateSetting(db, 'id', make));
    const values = new Set(await Promise.all(racers));
    assert.equal(values.size, 1);
    assert.ok(values.has((await getSetting(db, 'id')) ?? ''));
  } finally {
    await close();
  }
});
