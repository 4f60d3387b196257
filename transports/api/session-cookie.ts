/**
 * The session cookie of browsers (docs/reference/sessions.md). Scripts cannot read it, so an injected one cannot take
 * it away. It counts only for pages of the very origin that is called: SameSite alone would admit the pages of
 * containers, which are same-site.
 */
import type { Caller } from '../../proto/endpoint.ts';
import type { HttpRequest } from '../../proto/ports/http.ts';
import { valuesOf } from './authenticate.ts';
import { isUntouched } from './cors.ts';

const NAME = '__Host-troupe';
const ATTRIBUTES = 'Path=/; Secure; HttpOnly; SameSite=Strict';

/** The header by which a page asks for the cookie: `X-Troupe-Session: cookie`. */
const HEADER = 'x-troupe-session';

/** Whether the page wants its session in the cookie, and not in the body. */
export function wantsCookie(request: HttpRequest): boolean {
  return request.header(HEADER) === 'cookie';
}

/** The token in the cookie, if the request is of a page of this origin. */
export function sessionCookieToken(request: HttpRequest): string | undefined {
  const header = request.header('cookie');
  if (header === undefined || !header.includes(NAME) || !isSameOrigin(request)) return undefined;
  const found = valuesOf(header, NAME);
  return found.length === 1 ? found[0] : undefined;
}

/** The Set-Cookie header that keeps `token` for as long as it opens anything. */
export function sessionCookie(token: string, { expiresAt }: Pick<Caller, 'expiresAt'>, now: number): string {
  return `${NAME}=${token}; ${ATTRIBUTES}; Max-Age=${Math.max(0, Math.floor(expiresAt - now / 1000))}`;
}

/** The Set-Cookie header that makes a browser forget the cookie. */
export const FORGET_SESSION = `${NAME}=; ${ATTRIBUTES}; Max-Age=0`;

/**
 * Browsers say where a request comes from in headers that no script can set (Fetch Metadata; Fetch, "Origin"). Of an
 * Origin only host and port are the ones that are called: its page must have come by https or from this machine, else
 * whoever is on the way could have written it.
 */
function isSameOrigin(request: HttpRequest): boolean {
  const site = request.header('sec-fetch-site');
  const origin = request.header('origin');
  if (site !== undefined && site !== 'same-origin') return false;
  if (origin === undefined) return site === 'same-origin';
  return URL.canParse(origin) && new URL(origin).host === request.header('host') && isUntouched(origin);
}
