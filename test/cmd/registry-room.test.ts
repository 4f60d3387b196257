/** What the disk of the platform's own registry takes, by how much of it is free. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { roomOf, roomOfFiles } from '../../cmd/node/registry/room.ts';

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

test('a disk without room for more files takes no more than one that is full', () => {
  assert.equal(roomOfFiles(5000, 100_000), 'enough');
  assert.equal(roomOfFiles(4999, 100_000), 'little');
  assert.equal(roomOfFiles(1249, 100_000), 'none');
  assert.equal(roomOfFiles(0, 0), 'enough', 'the file system has no bound');
});
