import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ID_PATTERN, idSchema, newId } from '../../proto/ids.ts';

test('an id is 12 characters, the first a letter, and no two are alike', () => {
  const ids = new Set(Array.from({ length: 5000 }, newId));
  assert.equal(ids.size, 5000);
  for (const id of ids) assert.match(id, ID_PATTERN);
});

test('what is not an id is refused', () => {
  for (const text of ['', 'abc', '1bcdefghijkl', 'ABCDEFGHIJKL', 'abcdefghijkl\n', 'abcdefghijk.', 'abcdefghijklm']) {
    assert.equal(idSchema.safeParse(text).success, false, JSON.stringify(text));
  }
});
