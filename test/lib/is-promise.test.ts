import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isPromise } from '../../lib/waiting.ts';

test('a promise, and what can be awaited like one, comes later; everything else is there', () => {
  const awaitable = Object.defineProperty({}, 'then', { value: () => undefined });
  for (const later of [Promise.resolve(1), awaitable]) assert.equal(isPromise(later), true);
  const notAwaitable = Object.defineProperty({}, 'then', { value: 'a text' });
  for (const there of [undefined, null, 0, 'then', {}, notAwaitable]) assert.equal(isPromise(there), false);
});
