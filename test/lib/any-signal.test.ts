import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { test } from 'node:test';
import { anySignal } from '../../lib/waiting.ts';

test('a signal of several aborts with the first, and leaves nothing at them once it is let go of', () => {
  const lasting = new AbortController();
  for (let n = 0; n < 100; n++) anySignal([lasting.signal, new AbortController().signal]).release();
  assert.deepEqual(getEventListeners(lasting.signal, 'abort'), []);
  const joined = anySignal([new AbortController().signal, lasting.signal]);
  lasting.abort(new Error('the end'));
  assert.match(String(joined.signal.reason), /the end/);
  assert.ok(anySignal([lasting.signal]).signal.aborted);
});
