/** Lets browsers read answers from pages of other origins (the Fetch standard, "CORS protocol"). */
import type { HttpHandler, HttpReply, HttpRequest } from '../../proto/ports/http.ts';

const METHODS = 'GET, POST, PATCH, DELETE';
const REQUEST_HEADERS = 'authorization, content-type, idempotency-key';
/** What a page may read besides the headers that it always may. */
const EXPOSED = 'retry-after, x-request-id, idempotency-replayed, x-troupe-proof-name, x-troupe-proof-value';
const PREFLIGHT_SECONDS = '600';

/**
 * Which pages may: those of `domain` and its subdomains that came by https, since whoever is on the way may put
 * anything into others. Names of the browser's own machine, as in development, may come by http. Containers live below
 * `tenants`, and their pages are their users', who must not act with the cookies of whoever looks at them.
 */
export function dashboardPages(domain: string, tenants: string): (origin: string | undefined) => boolean {
  return (origin) =>
    origin === undefined || (isOwnPage(origin, domain) && !isOwnPage(origin, tenants) && isUntouched(origin));
}

/** Whether nobody on the way could change the page: by https, or from this machine (Secure Contexts, section 3.1). */
export function isUntouched(origin: string): boolean {
  const { protocol, hostname } = new URL(origin);
  return protocol === 'https:' || /(?:^|\.)localhost$|^127(?:\.\d+){3}$|^\[::1\]$/.test(hostname.replace(/\.$/, ''));
}

/** Answers preflights, and marks replies for the pages that may read them. `maySee`: whether pages of an origin may. */
export function withCors(onRequest: HttpHandler, maySee: (origin: string | undefined) => boolean): HttpHandler {
  return async (request) => {
    const origin = request.header('origin');
    const isAllowed = origin !== undefined && maySee(origin);
    if (isPreflight(request)) return preflight(isAllowed ? origin : undefined);
    const reply = await onRequest(request);
    return { ...reply, headers: [...reply.headers, ...marks(isAllowed ? origin : undefined)] };
  };
}

function isPreflight(request: HttpRequest): boolean {
  return request.method === 'OPTIONS' && request.header('access-control-request-method') !== undefined;
}

function preflight(origin: string | undefined): HttpReply {
  const allowed: readonly (readonly [string, string])[] =
    origin === undefined
      ? []
      : [
          ['access-control-allow-methods', METHODS],
          ['access-control-allow-headers', REQUEST_HEADERS],
          ['access-control-max-age', PREFLIGHT_SECONDS],
        ];
  return { status: 204, headers: [...marks(origin), ...allowed] };
}

/** `vary` stands always: an answer for one page must not be kept for another. */
function marks(origin: string | undefined): (readonly [string, string])[] {
  if (origin === undefined) return [['vary', 'origin']];
  return [
    ['vary', 'origin'],
    ['access-control-allow-origin', origin],
    ['access-control-allow-credentials', 'true'],
    ['access-control-expose-headers', EXPOSED],
  ];
}

/**
 * Whether a page of `origin` belongs to the platform: its host is `domain` or ends in it, on any port. Programs send no
 * Origin, and are let in; an opaque one ("null") is nobody's.
 */
export function isOwnPage(origin: string | undefined, domain: string | undefined): boolean {
  if (origin === undefined) return true;
  if (domain === undefined || !/^https?:\/\//i.test(origin) || !URL.canParse(origin)) return false;
  const host = new URL(origin).hostname.replace(/\.$/, '');
  const own = domain.toLowerCase();
  return host === own || host.endsWith(`.${own}`);
}
