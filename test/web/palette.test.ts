/** Which lines of the palette a few letters mean. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { matching } from '../../web/shell/palette/match.ts';

const LINES = [
  'Open a terminal in worker',
  'Stop worker',
  'Go to SSH keys',
  'Go to Settings',
  'Copy the SSH command of api',
].map((name) => ({ name }));
const names = (typed: string) => matching(LINES, typed).map(({ name }) => name);

test('without letters all lines are there, as they are', () => {
  assert.deepEqual(matching(LINES, '  '), LINES);
});

test('the beginning of a word comes before its middle, and that before scattered letters', () => {
  assert.equal(names('set')[0], 'Go to Settings');
  assert.deepEqual(names('stop wor'), ['Stop worker']);
  assert.equal(names('ssh')[0], 'Go to SSH keys');
  assert.equal(names('trmwrk')[0], 'Open a terminal in worker');
});

test('what has not all letters in this order is left out', () => {
  assert.deepEqual(names('zebra'), []);
  assert.deepEqual(names('rekrow'), []);
});
