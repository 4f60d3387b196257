import assert from 'node:assert/strict';
import { it } from 'node:test';
import type { HttpServerOptions } from '../../../../proto/ports/http.ts';
import { failedProbes, listen } from '../../../../transports/http/index.ts';
import type { Adapter } from '../client.ts';

/** The machine may be busy: `auto` has less patience. */
const PATIENCE_MS = 10_000;

/** Where uWebSockets.js 3.0.6 does not do as it should, whatever its adapter adds: what of a probe's name is enough to know it by. */
const UWS_FAILS = [
  'a request line cut in two',
  'a query of 4 KB cut at 1,430 bytes',
  'an absolute target',
  'a header name that is none',
  'NUL in a header value',
  'no Host',
  'two lengths',
  // Refused, and cut before the answer where something comes behind.
  'two Hosts',
  'a Host that is none',
  'a frame that is not masked',
];

/** Bytes that two readers may read in two ways: refused, and what stands behind them is never a request. */
export function strictness(adapter: Adapter): void {
  it(`is as strict as ${adapter === 'uws' ? 'its library lets it be, which auto finds out' : 'it has to be'}`, async () => {
    const failed = await failedProbes((options: HttpServerOptions) => listen(options, adapter), PATIENCE_MS);
    if (adapter !== 'uws') assert.deepEqual(failed, []);
    else {
      assert.notDeepEqual(failed, []);
      const unknown = failed.filter((name) => !UWS_FAILS.some((known) => name.startsWith(known)));
      assert.deepEqual(unknown, []);
      // What it refuses itself is followed by nothing.
      assert.ok(!failed.some((name) => name.includes('read as a request')), failed.join('; '));
    }
  });
}
