import { jsonOf } from '../../../lib/input.ts';
import { EngineError } from '../../../proto/ports/engine.ts';

/**
 * Reads a stream of JSON values, one a line (Docker's /events, /images/create), however the bytes are cut. Lines that
 * are not JSON are skipped. Throws EngineError `unavailable` when a line grows past `maxLineBytes`.
 */
export async function* jsonLines(stream: AsyncIterable<unknown>, maxLineBytes = 1024 * 1024): AsyncGenerator<unknown> {
  let rest: Buffer = Buffer.alloc(0);
  for await (const chunk of stream) {
    if (!(chunk instanceof Uint8Array)) continue;
    rest = rest.length === 0 ? Buffer.from(chunk) : Buffer.concat([rest, chunk]);
    for (let end = rest.indexOf(0x0a); end !== -1; end = rest.indexOf(0x0a)) {
      const value = jsonOf(rest.toString('utf8', 0, end));
      rest = rest.subarray(end + 1);
      if (value !== undefined) yield value;
    }
    if (rest.length > maxLineBytes) {
      throw new EngineError('unavailable', 'The container engine sent a line that is too long.');
    }
  }
  const last = jsonOf(rest.toString('utf8'));
  if (last !== undefined) yield last;
}
