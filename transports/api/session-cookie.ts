/**
 * Sessions that browsers keep in the cookie `__Host-troupe`, out of reach of scripts. Browsers send it along whatever
 * page asks, and for them the pages of users' containers are of the same site: so it counts only for requests of pages
 * of exactly the console's origin, `https://<domain>`.
 */
import { decodeJwt } from 'jose';
import { SESSION_COOKIE } from '../../proto/auth/tokens.ts';
import type { AnyEndpoint } from '../../proto/endpoint.ts';
import { Refusal } from '../../proto/errors.ts';
import type { HttpReply, HttpRequest } from '../../proto/ports/http.ts';
import { bearer, type CookieRule, cookieToken, cookieValues } from './authenticate.ts';
import { isUntouched } from './cors.ts';
import { jsonReply } from './replies.ts';

const ATTRIBUTES = 'Path=/; Secure; HttpOnly; SameSite=Strict';

/** The header by which a login asks for a cookie, and the value that does. */
const ASKING = 'x-troupe-session';
const COOKIE = 'cookie';

/** Host and port that were asked: the gateway's word for them comes first, and no page can say it. */
export function askedHost(request: HttpRequest): string | undefined {
  return request.header('x-forwarded-host') ?? request.header('host');
}

/**
 * Whether a page of the console asks: of the host `domain`, by https or from this machine, of the same origin as what
 * it asks. Browsers say so in `Sec-Fetch-Site` (W3C Fetch Metadata) or `Origin`, which no page can change. For whoever
 * sends neither, a cookie proves nothing.
 */
export function isConsole(request: HttpRequest, domain: string | undefined): boolean {
  const site = request.header('sec-fetch-site');
  if (domain === undefined || (site !== undefined && site !== 'same-origin')) return false;
  const origin = request.header('origin');
  const scheme = origin?.startsWith('http://') ? 'http' : 'https';
  const asked = `${scheme}://${askedHost(request) ?? ''}`;
  if (!URL.canParse(asked)) return false;
  const own = new URL(asked);
  if (own.hostname !== domain.toLowerCase()) return false;
  if (origin === undefined) return site === 'same-origin';
  return origin === own.origin && isUntouched(origin);
}

/**
 * The token of a request's cookies, if the page that asks may use it: `__Host-troupe`, or the cookie of `rule`.
 * Undefined when both are there and differ: a container's page may have set the other for the whole domain.
 */
export function tokenOfCookies(
  request: HttpRequest,
  domain: string | undefined,
  rule: CookieRule | undefined,
): string | undefined {
  const header = request.header('cookie');
  if (header === undefined) return undefined;
  const other = rule === undefined ? undefined : cookieToken(request, rule);
  const [bound, ...more] = cookieValues(header, SESSION_COOKIE);
  if (bound === undefined) return other;
  if (more.length > 0 || (other !== undefined && other !== bound)) return undefined;
  return isConsole(request, domain) ? bound : other;
}

/**
 * Whether the session that the endpoint begins is to come in a cookie: the caller asks so, or has the present one
 * there.
 * Refuses `forbidden` for pages that could not use it.
 */
export function wantsCookie(endpoint: AnyEndpoint, request: HttpRequest, domain: string | undefined): boolean {
  if (endpoint.sessionCookie !== 'begins') return false;
  const isProvenByCookie = endpoint.access !== 'none' && bearer(request.header('authorization')) === undefined;
  if (request.header(ASKING)?.toLowerCase() !== COOKIE && !isProvenByCookie) return false;
  if (isConsole(request, domain)) return true;
  throw new Refusal('forbidden', {
    message: `Only pages of https://${domain ?? 'the platform'} may have a session in a cookie.`,
  });
}

/** The reply of an endpoint that begins a session: its token as a cookie instead of in the body. */
export function beginningReply(status: number, value: unknown, requestId: string): HttpReply {
  if (typeof value !== 'object' || value === null || !('token' in value) || typeof value.token !== 'string')
    return jsonReply(status, value, requestId);
  const { token, ...rest } = value;
  const { exp = 0 } = decodeJwt(token);
  const seconds = Math.max(0, Math.ceil(exp - Date.now() / 1000));
  const cookie = `${SESSION_COOKIE}=${token}; ${ATTRIBUTES}; Max-Age=${seconds}`;
  return withCookie(jsonReply(status, { ...rest, expires_at: exp }, requestId), cookie);
}

/** The reply of an endpoint that ends a session: the browser forgets the cookie, if it was the console that asked. */
export function endingReply(reply: HttpReply, request: HttpRequest, domain: string | undefined): HttpReply {
  if (!isConsole(request, domain)) return reply;
  return withCookie(reply, `${SESSION_COOKIE}=; ${ATTRIBUTES}; Max-Age=0`);
}

function withCookie(reply: HttpReply, cookie: string): HttpReply {
  return { status: reply.status, body: reply.body ?? '', headers: [...reply.headers, ['set-cookie', cookie]] };
}
