/** The size of a terminal whose engine serves requests in any order. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { lastSizeStands } from '../../transports/engines/common/exec.ts';
import { turns } from '../support/until.ts';

test('sizes are sent one after the other, and the last stands', async () => {
  const sent: string[] = [];
  let answer: (error?: Error) => void = () => {};
  const resize = lastSizeStands((cols, rows) => {
    sent.push(`${cols}x${rows}`);
    return new Promise<void>((resolve, reject) => {
      answer = (error) => (error === undefined ? resolve() : reject(error));
    });
  });
  resize(100, 40);
  resize(110, 45);
  resize(120, 50);
  await turns();
  assert.deepEqual(sent, ['100x40']);
  answer(new Error('it has ended'));
  await turns();
  assert.deepEqual(sent, ['100x40', '120x50']);
  answer();
  await turns();
  resize(80, 24);
  assert.deepEqual(sent, ['100x40', '120x50', '80x24']);
});
