import assert from 'node:assert/strict';
import { test } from 'node:test';
import { getOrCreateSetting, getSetting, setSetting } from '../../storage/settings.ts';
import { testDatabase } from '../kit/database.ts';

test('settings are kept, changed, and made once by those who race', async () => {
  const { db, close } = await testDatabase();
  try {
    assert.equal(await getSetting(db, 'a'), undefined);
    await setSetting(db, 'a', '1');
    await setSetting(db, 'a', '2');
    assert.equal(await getSetting(db, 'a'), '2');
    assert.equal(await getOrCreateSetting(db, 'a', () => assert.fail('it exists')), '2');
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
