/** The whole of proxy.test.ts without the handles below sockets: what a Node gets whose handles are not known. */
import '../support/own-process.ts'; // All of its process goes by streams.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { usesHandles, useWires } from '../../transports/wire/wires.ts';

useWires('stream');
await import('./proxy.test.ts');

test('streams are used', () => assert.equal(usesHandles(), false));
