/** The trial of handles: passed by what wires are tested on, and failed by handles that do something else. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { newTcpHandle } from '../../transports/wire/handles.ts';
import { handlesFail } from '../../transports/wire/trial.ts';
import { failOnLeaks } from '../support/leaks.ts';

failOnLeaks();

/** What all handles of TCP inherit from, with another function in the place of one of its own. */
function replace(name: string, by: unknown): () => void {
  const { handle } = newTcpHandle();
  handle.close(() => {});
  let owner: object | null = handle;
  while (owner !== null && !Object.hasOwn(owner, name)) owner = Object.getPrototypeOf(owner);
  assert.ok(owner, `no handle has ${name}`);
  const own = Object.getOwnPropertyDescriptor(owner, name);
  Object.defineProperty(owner, name, { value: by, configurable: true });
  return () => void Object.defineProperty(owner, name, own ?? {});
}

test('the handles of this Node.js pass, and leave nothing open', async () => {
  assert.equal(await handlesFail(), undefined);
});

test('handles that do something else fail it, with words', async () => {
  const { handle } = newTcpHandle();
  const asUtf8 = Reflect.get(handle, 'writeUtf8String');
  handle.close(() => {});
  for (const [name, by, words] of [
    ['writeLatin1String', asUtf8, /what comes is not what was sent|an end comes early/],
    ['connect', () => -22, /a connection is not begun: -22/],
    ['readStart', () => -22, /an end is not told of/],
    ['shutdown', () => -22, /an end is not told of/],
  ] as const) {
    const restore = replace(name, by);
    try {
      assert.match((await handlesFail()) ?? 'it passes', words, name);
    } finally {
      restore();
    }
  }
});
