/** What a container printed, without its secrets. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { withoutSecrets } from '../../actors/compute/container/masking.ts';

test('the values of secrets are masked wherever they are, the longest first', () => {
  assert.equal(withoutSecrets('a hunter2x and hunter2.', ['hunter2', 'hunter2x']), 'a *** and ***.');
  assert.equal(withoutSecrets('nothing here', []), 'nothing here');
});

test('short values stay, or nothing could be read', () => {
  assert.equal(withoutSecrets('port 1 of 12', ['1', '12', '', 'no']), 'port 1 of 12');
});

test('of a value with several lines each is masked', () => {
  const key = '-----BEGIN KEY-----\r\nabcdef\n-----END KEY-----\n';
  assert.equal(withoutSecrets('x abcdef y -----END KEY-----', [key]), 'x *** y ***');
});

test('the beginning of one at the end of a text that was cut is masked, too', () => {
  assert.equal(withoutSecrets('say hunte', ['hunter2'], true), 'say ***');
  assert.equal(withoutSecrets('say hunte', ['hunter2']), 'say hunte');
  assert.equal(withoutSecrets('say hun', ['hunter2'], true), 'say hun');
});
