import assert from 'node:assert/strict';
import { test } from 'node:test';
import { errorText } from '../../lib/errors.ts';

test('an error is told by its message, anything else as a string or by the words given', () => {
  assert.equal(errorText(new TypeError('no number')), 'no number');
  assert.equal(errorText(new Error(''), 'unknown'), '');
  assert.equal(errorText('a text'), 'a text');
  assert.equal(errorText(undefined), 'undefined');
  assert.equal(errorText({ code: 7 }, 'unknown'), 'unknown');
});
