import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readRange } from '../../actors/compute/files/range-rules.ts';

test('one range of bytes is read, cut at the end of the file', () => {
  assert.deepEqual(readRange('bytes=0-0', 10), { begin: 0, end: 1 });
  assert.deepEqual(readRange('bytes=5-', 10), { begin: 5, end: 10 });
  assert.deepEqual(readRange('bytes=5-99', 10), { begin: 5, end: 10 });
  assert.deepEqual(readRange('bytes=-3', 10), { begin: 7, end: 10 });
  assert.deepEqual(readRange('bytes=-99', 10), { begin: 0, end: 10 });
});

test('a range that the file does not have is told from a header that is passed over', () => {
  for (const header of ['bytes=10-', 'bytes=10-12', 'bytes=-0']) assert.equal(readRange(header, 10), 'none', header);
  for (const header of [undefined, '', 'bytes=-', 'bytes=3-2', 'bytes=0-1,3-4', 'lines=0-1', 'bytes=a-b'])
    assert.equal(readRange(header, 10), undefined, header);
  assert.equal(readRange('bytes=0-', 0), 'none');
});
