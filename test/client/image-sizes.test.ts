/** What only one tag holds. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sizesIn } from '../../cmd/client/images/sizes.ts';

test('a part counts alone where no other tag has it, and two tags of one image hold nothing alone', () => {
  const parts = (sizes: Readonly<Record<string, number>>) => new Map(Object.entries(sizes));
  const sizes = sizesIn(
    new Map([
      ['a:1', parts({ base: 100, one: 7 })],
      ['a:2', parts({ base: 100, two: 9, more: 1 })],
      ['b:1', parts({ other: 50 })],
      ['b:2', parts({ other: 50 })],
      ['gone:1', parts({})],
    ]),
  );
  assert.deepEqual(Object.fromEntries(sizes), {
    'a:1': { bytes: 107, own_bytes: 7 },
    'a:2': { bytes: 110, own_bytes: 10 },
    'b:1': { bytes: 50, own_bytes: 0 },
    'b:2': { bytes: 50, own_bytes: 0 },
    'gone:1': { bytes: 0, own_bytes: 0 },
  });
});
