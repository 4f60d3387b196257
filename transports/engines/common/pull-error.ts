/** What the sentence of a pull that failed means. */
import { errorText } from '../../../lib/errors.ts';
import { EngineError } from '../../../proto/ports/engine.ts';
import { cleanReason } from './errors.ts';
import type { ImageReference } from './image-reference.ts';

/** What a registry knows for sure, in Docker's words. */
const FINAL = new RegExp(
  [
    'not found|manifest unknown|name unknown|does not exist|access denied|unauthorized|authentication required',
    'no basic auth|denied:|invalid reference|no matching manifest|unsupported|HTTP response to HTTPS',
  ].join('|'),
  'i',
);
/** What may be otherwise later. */
const PASSING = new RegExp(
  [
    'timeout|timed out|connection refused|no such host|network is unreachable|too ?many ?requests|temporar',
    'TLS handshake|EOF',
  ].join('|'),
  'i',
);

/**
 * Docker answers a pull that failed with 404 or 500 and a sentence. What the registry knows for sure (no such name, no
 * right to it) is `image_not_found`; a registry out of reach, or one that asks to slow down, may work later.
 */
export function pullError(reference: ImageReference, reason: string, cause?: unknown): EngineError {
  const text = cleanReason(reason);
  const code = FINAL.test(text) && !PASSING.test(text) ? 'image_not_found' : 'unavailable';
  return new EngineError(code, `The image ${reference.full} cannot be pulled: ${text || errorText(cause)}`, { cause });
}
