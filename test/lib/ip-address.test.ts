import assert from 'node:assert/strict';
import { test } from 'node:test';
import { addressText, plainAddress } from '../../lib/ip-address.ts';

for (const [bytes, text] of [
  [[192, 0, 2, 7], '192.0.2.7'],
  [[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 192, 0, 2, 7], '192.0.2.7'],
  [[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1], '::1'],
  [[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], '::'],
  [[0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1], '2001:db8::1:0:0:1'],
  [[0x20, 1, 0x0d, 0xb8, 0, 0, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1], '2001:db8:0:1:1:1:1:1'],
  [[], ''],
] as const) {
  test(`an address in network order as text: ${text === '' ? 'none' : text}`, () => {
    assert.equal(addressText(Uint8Array.from(bytes)), text);
  });
}

test('an IPv4 address that a socket shows as IPv6 is shown as IPv4', () => {
  assert.equal(plainAddress('::ffff:192.0.2.7'), '192.0.2.7');
  assert.equal(plainAddress('::ffff:c000:207'), '::ffff:c000:207');
  assert.equal(plainAddress('2001:db8::1'), '2001:db8::1');
  assert.equal(plainAddress(undefined), '');
});
