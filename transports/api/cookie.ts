/** The token of a request that brings it in a cookie. */
import type { HttpRequest } from '../../proto/ports/http.ts';

/** Which cookie, and which pages' requests may use it. */
export interface CookieRule {
  readonly name: string;
  readonly isOwnPage: (origin: string | undefined) => boolean;
}

/**
 * The value of the cookie `__Host-<name>`, else of `<name>` when there is just one. Browsers send cookies along with
 * what any page asks for, so those of others' pages count for nothing: a page that is not the platform's own cannot act
 * with the rights of whoever looks at it.
 */
export function cookieToken(request: HttpRequest, { name, isOwnPage }: CookieRule): string | undefined {
  const header = request.header('cookie');
  if (header === undefined || !isOwnPage(request.header('origin'))) return undefined;
  // Browsers take one with this prefix from this very host only, so nobody else can have set it.
  const [bound = [], plain = []] = [`__Host-${name}`, name].map((one) => valuesOf(header, one));
  const found = bound.length > 0 ? bound : plain;
  // A container's page may set a cookie for the whole domain beside ours, and which of them is ours cannot be told.
  return found.length === 1 ? found[0] : undefined;
}

/** What all cookies of a name say; without quotes, and without the empty ones. */
function valuesOf(header: string, name: string): string[] {
  return header.split(';').flatMap((pair) => {
    const equals = pair.indexOf('=');
    if (equals < 0 || pair.slice(0, equals).trim() !== name) return [];
    const value = pair
      .slice(equals + 1)
      .trim()
      .replace(/^"(.*)"$/, '$1');
    return value === '' ? [] : [value];
  });
}
