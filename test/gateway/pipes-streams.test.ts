/** The whole of pipes.test.ts without the handles below sockets. */
import '../support/own-process.ts'; // All of its process goes by streams.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { usesHandles, useWires } from '../../transports/wire/wires.ts';

useWires('stream');
await import('./pipes.test.ts');

test('streams are used', () => assert.equal(usesHandles(), false));
