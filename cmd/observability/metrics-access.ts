/** Who may read `/metrics`: it tells how busy whom is, and services that run alone listen for the world. */
import { createHash, timingSafeEqual } from 'node:crypto';
import { Refusal } from '../../proto/errors.ts';
import type { HttpRequest } from '../../proto/ports/http.ts';
import { bearer } from '../../transports/api/authenticate.ts';
import { isLoopback } from '../../transports/wire/peer-address.ts';

/**
 * Lets in whoever asks from this machine, and whoever has `token` (METRICS_TOKEN, as `Authorization: Bearer`). Through
 * a proxy, the gateway for one, there is no such page.
 */
export function metricsAccess(token: string | undefined): (request: HttpRequest) => Refusal | undefined {
  const known = token === undefined ? undefined : digest(token);
  return (request) => {
    if (request.header('x-forwarded-for') !== undefined) return new Refusal('not_found');
    if (isLoopback(request.remoteAddress)) return undefined;
    if (known === undefined)
      return new Refusal('forbidden', {
        message:
          'Metrics are for this machine alone. With METRICS_TOKEN others may read them, who send it as a bearer.',
      });
    const given = bearer(request.header('authorization'));
    // Digests have one length, and comparing them tells nothing of the token.
    return given !== undefined && timingSafeEqual(digest(given), known) ? undefined : new Refusal('unauthorized');
  };
}

function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
