/** What the gateway itself says in an origin's answer: by cookie who was let in, to caches, and of HTTPS. */
import type { Field } from '../../wire/h1/fields.ts';
import type { ResponseHead } from './response-head.ts';
import { withoutOurCookies } from './tenant-cookies.ts';
import type { Forwarded } from './write-heads.ts';

/** The response as its client gets it: without cookies that its origin may not set, with what the gateway says. */
export function withOwnFields(forwarded: Forwarded, read: ResponseHead): ResponseHead {
  const { tenantOf, isGuarded, setsCookie, strictTransport } = forwarded;
  const response = tenantOf === undefined ? read : withoutOurCookies(read, tenantOf);
  // An interim answer is not the one that was asked for; 101 is.
  if (response.status < 200 && response.status !== 101) return response;
  if (isGuarded !== undefined) return guarded(response, setsCookie);
  // Of several the first counts (RFC 6797, section 8.1): an operator's own route may say it, too.
  if (strictTransport === undefined || response.fields.some(({ name }) => name === STRICT.toLowerCase()))
    return response;
  return { ...response, fields: [...response.fields, fieldOf(STRICT, strictTransport)] };
}

const STRICT = 'Strict-Transport-Security';

/** What caches in front of this gateway obey before Cache-Control. */
const OF_SHARED_CACHES = new Set(['cdn-cache-control', 'surrogate-control', 'x-accel-expires']);

function guarded(response: ResponseHead, cookie: string | undefined): ResponseHead {
  const kept = response.fields.filter(({ name }) => !OF_SHARED_CACHES.has(name));
  // Of several directives the strictest counts (RFC 9111, section 5.2).
  const added = [fieldOf('Cache-Control', cookie === undefined ? 'private' : 'private, no-store')];
  if (cookie !== undefined) added.push(fieldOf('Set-Cookie', cookie));
  return { ...response, fields: [...kept, ...added] };
}

const fieldOf = (title: string, value: string): Field => ({
  name: title.toLowerCase(),
  value,
  line: `${title}: ${value}`,
});
