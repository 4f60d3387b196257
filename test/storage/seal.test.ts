import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { open, parseSealKey, SealError, seal } from '../../storage/seal.ts';

const key = parseSealKey(randomBytes(32).toString('base64'));
const cannotOpen = (error: unknown) => error instanceof SealError && error.code === 'cannot_open';

test('what was sealed opens with the same key and context', () => {
  for (const text of ['', 'secret', 'ü'.repeat(5000)]) {
    const sealed = seal(key, 'tokens/1', Buffer.from(text));
    assert.ok(text === '' || !sealed.includes(text));
    assert.equal(open(key, 'tokens/1', sealed).toString(), text);
  }
});

test('the same text sealed twice looks different', () => {
  assert.notDeepEqual(seal(key, 'a', Buffer.from('x')), seal(key, 'a', Buffer.from('x')));
});

test('another context or another key does not open it', () => {
  const sealed = seal(key, 'tokens/1', Buffer.from('secret'));
  assert.throws(() => open(key, 'tokens/2', sealed), cannotOpen);
  assert.throws(() => open(parseSealKey(randomBytes(32).toString('hex')), 'tokens/1', sealed), cannotOpen);
});

test('any flipped bit and any cut is noticed', () => {
  const sealed = seal(key, 'tokens/1', Buffer.from('secret'));
  for (let bit = 0; bit < sealed.length * 8; bit++) {
    const changed = Buffer.from(sealed);
    changed[bit >> 3] = (changed[bit >> 3] ?? 0) ^ (1 << (bit & 7));
    assert.throws(() => open(key, 'tokens/1', changed), cannotOpen, `bit ${bit}`);
  }
  for (let length = 0; length < sealed.length; length++) {
    assert.throws(() => open(key, 'tokens/1', sealed.subarray(0, length)), cannotOpen, `length ${length}`);
  }
});

test('keys are 32 bytes in base64, base64url or hex', () => {
  const bytes = Buffer.alloc(32, 0xfb);
  const texts = [
    bytes.toString('base64'),
    bytes.toString('base64url'),
    bytes.toString('hex'),
    ` ${bytes.toString('hex')}\n`,
  ];
  for (const text of texts) assert.deepEqual(parseSealKey(text).export(), bytes, text);
  for (const text of [
    '',
    'short',
    bytes.toString('hex').slice(1),
    `${bytes.toString('base64')}A`,
    '!'.repeat(44),
    'g'.repeat(64),
  ]) {
    assert.throws(
      () => parseSealKey(text),
      (error) => error instanceof SealError && error.code === 'bad_key',
      text,
    );
  }
});
