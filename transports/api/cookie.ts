/** The token of a request that brings it in a cookie (interface section 5.2). */
import type { HttpRequest } from '../../proto/http.ts';

/** Which cookie, and which pages' requests may use it. */
export interface CookieRule {
  readonly name: string;
  readonly isOwnPage: (origin: string | undefined) => boolean;
}

/**
 * The cookie's value. Browsers send cookies along with what any page asks for, so those of others' pages count for nothing: a page that is not
 * the platform's own cannot act with the rights of whoever looks at it.
 */
export function cookieToken(request: HttpRequest, { name, isOwnPage }: CookieRule): string | undefined {
  const header = request.header('cookie');
  if (header === undefined || !isOwnPage(request.header('origin'))) return undefined;
  for (const pair of header.split(';')) {
    const equals = pair.indexOf('=');
    if (equals < 0 || pair.slice(0, equals).trim() !== name) continue;
    const value = pair.slice(equals + 1).trim();
    return value.replace(/^"(.*)"$/, '$1') || undefined;
  }
  return undefined;
}
