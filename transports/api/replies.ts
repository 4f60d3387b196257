/** Turns results and refusals into HTTP replies. The only place that knows which status a code has. */
import { ERRORS, Refusal } from '../../proto/errors.ts';
import type { HttpReply } from '../../proto/ports/http.ts';

const JSON_HEADERS: readonly (readonly [string, string])[] = [
  ['content-type', 'application/json; charset=utf-8'],
  ['cache-control', 'no-store'],
  ['x-content-type-options', 'nosniff'],
];
const BARE_HEADERS: readonly (readonly [string, string])[] = [['cache-control', 'no-store']];

/** A reply with `value` as JSON; undefined gives an empty body. `requestId` goes into a header. */
export function jsonReply(status: number, value: unknown, requestId?: string): HttpReply {
  const common = value === undefined ? BARE_HEADERS : JSON_HEADERS;
  const headers = requestId === undefined ? common : [...common, ['x-request-id', requestId] as const];
  return value === undefined ? { status, headers } : { status, headers, body: JSON.stringify(value) };
}

/** Default of Retry-After for a part that is down, seconds. */
const RETRY_AFTER = 5;

/** How to log in: the `www-authenticate` of a 401 (RFC 6750; RFC 7617 for endpoints that read Basic credentials). */
const BEARER = 'Bearer';
const BASIC = 'Basic realm="troupe", charset="UTF-8"';

/**
 * The reply for a refusal: `{"error", "code"}`, with `fields` for a bad body. `isBasic`: the
 * endpoint reads Basic credentials.
 */
export function refusalReply(refusal: Refusal, isBasic = false): HttpReply {
  const { status } = ERRORS[refusal.code];
  const headers = [...JSON_HEADERS];
  const retryAfter = refusal.retryAfter ?? (status === 503 ? RETRY_AFTER : undefined);
  if (retryAfter !== undefined) headers.push(['retry-after', String(Math.max(1, Math.ceil(retryAfter)))]);
  const { proof } = refusal;
  if (proof !== undefined) headers.push(['x-troupe-proof-name', proof.name], ['x-troupe-proof-value', proof.value]);
  if (status === 401) headers.push(['www-authenticate', isBasic ? BASIC : BEARER]);
  const body: Record<string, unknown> = { error: refusal.message, code: refusal.code };
  if (refusal.fields !== undefined) body.fields = refusal.fields;
  return { status, headers, body: JSON.stringify(body) };
}

/** The reply when a path exists but not for this method (RFC 9110, section 15.5.6). */
export function methodReply(allow: readonly string[]): HttpReply {
  const reply = refusalReply(new Refusal('method_not_allowed'));
  return { ...reply, headers: [...reply.headers, ['allow', allow.join(', ')]] };
}

/** The same reply with one more header. */
export function withHeader(reply: HttpReply, name: string, value: string): HttpReply {
  return { ...reply, headers: [...reply.headers, [name, value]] };
}

/** The same reply with `text` as its body. */
export function plainReply(reply: HttpReply, text: string): HttpReply {
  const headers = reply.headers.filter(([name]) => name !== 'content-type');
  return { status: reply.status, headers: [['content-type', 'text/plain; charset=utf-8'], ...headers], body: text };
}
