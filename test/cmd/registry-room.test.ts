/** What the disk of the platform's own registry takes, by how much of it is free. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { roomOf } from '../../cmd/node/registry/room.ts';

const GIB = 2 ** 30;

test('a part of the disk is kept for removals, and a part of that for nothing', () => {
  for (const [total, kept] of [
    [10 * GIB, GIB],
    [100 * GIB, 5 * GIB],
    [2000 * GIB, 20 * GIB],
  ] as const) {
    assert.equal(roomOf(kept, total), 'enough');
    assert.equal(roomOf(kept - 1, total), 'little');
    assert.equal(roomOf(kept / 4, total), 'little');
    assert.equal(roomOf(kept / 4 - 1, total), 'none');
  }
});
