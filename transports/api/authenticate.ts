/** Proves who calls from the token. The one place where tokens are verified, for HTTP and WebSocket alike. */
import type { JWTPayload } from 'jose';
import { LRUCache } from 'lru-cache';
import { type SharedSecret, tokenKeyring, verifiedClaims } from '../../proto/auth/shared-secret.ts';
import {
  API_TOKEN_PREFIX,
  type Authenticate,
  apiTokenClaimsSchema,
  challengeClaimsSchema,
  MAX_TOKEN_LENGTH,
  SCOPE_CACHE_MS,
  sessionClaimsSchema,
  type TokenDirectory,
  type TokenNews,
} from '../../proto/auth/tokens.ts';
import { type Caller, remainingMs } from '../../proto/endpoint.ts';
import { Refusal } from '../../proto/errors.ts';
import type { Clock } from '../../proto/ports/clock.ts';
import type { HttpRequest } from '../../proto/ports/http.ts';

/** Tokens kept as verified; expiry is checked again at every use. */
const CACHE_SIZE = 10_000;
/** A use of an API token is reported once in so many seconds. */
const USE_RESOLUTION = 5;

/** Three parts of base64url without padding (RFC 7515, section 7.1); readers differ on anything else. */
const COMPACT = /^[\w-]+\.[\w-]+\.[\w-]+$/;

/** What is remembered of a token that proved somebody. */
interface KnownToken {
  readonly caller: Caller;
  /** Unix ms of the look into the directory. */
  readonly checkedAt: number;
  /** Unix seconds of the last use that was reported. */
  reportedAt: number;
}

interface AuthenticatorOptions {
  /** JWT_SECRET. */
  readonly secret: SharedSecret;
  readonly clock: Clock;
  readonly directory: TokenDirectory;
  /** Told that an API token was used, at a time in unix seconds; not for every use. */
  readonly onUse?: (tokenId: string, at: number) => void;
}

/** The verifier, and how it hears what changed. */
interface Authenticator {
  readonly authenticate: Authenticate;
  /** Forgets what the news is about: from here on the token is looked up anew. */
  readonly forget: (news: TokenNews) => void;
}

/**
 * Makes the verifier. Only HS256 is accepted, so a token cannot choose its algorithm (RFC 8725, section 3.1), and the
 * kind must be what the token's form says. A session's user must exist; an API token must stand in the directory, whose
 * answer is believed for five minutes unless news comes earlier.
 */
export function authenticator({ secret, clock, directory, onUse }: AuthenticatorOptions): Authenticator {
  const keyring = tokenKeyring(secret);
  const known = new LRUCache<string, KnownToken>({ max: CACHE_SIZE });
  /** Rises with all news: an answer of the directory that was under way meanwhile may be old. */
  let generation = 0;

  const alive = (caller: Caller) => remainingMs(caller, clock.now()) > 0;

  const used = (entry: KnownToken): Caller => {
    if (entry.caller.kind === 'api_token' && onUse !== undefined) {
      const at = Math.floor(clock.now() / 1000);
      if (Math.abs(at - entry.reportedAt) >= USE_RESOLUTION) {
        entry.reportedAt = at;
        onUse(entry.caller.tokenId, at);
      }
    }
    return entry.caller;
  };

  const claimsOf = async (jwt: string): Promise<JWTPayload | undefined> => {
    if (!COMPACT.test(jwt)) return undefined;
    return verifiedClaims(jwt, keyring, { currentDate: new Date(clock.now()) });
  };

  const verify = async (token: string): Promise<Caller | undefined> => {
    const isApiToken = token.startsWith(API_TOKEN_PREFIX);
    const claims = await claimsOf(isApiToken ? token.slice(API_TOKEN_PREFIX.length) : token);
    if (claims === undefined) return undefined;
    for (;;) {
      const before = generation;
      const checkedAt = clock.now();
      const caller = await (isApiToken ? apiCaller(claims, directory) : userCaller(claims, directory));
      if (caller === undefined || !alive(caller)) return undefined;
      if (generation !== before) continue;
      const entry: KnownToken = { caller, checkedAt, reportedAt: 0 };
      // A challenge counts once: remembering it is no use.
      if (caller.kind !== 'challenge') known.set(token, entry);
      return used(entry);
    }
  };

  return {
    authenticate: (token) => {
      if (token.length > MAX_TOKEN_LENGTH) return undefined;
      const entry = known.get(token);
      if (entry === undefined) return verify(token);
      const { caller } = entry;
      if (!alive(caller)) {
        known.delete(token);
        return undefined;
      }
      const age = clock.now() - entry.checkedAt;
      // Of a clock that was set back nobody knows how long ago that was.
      if (caller.kind === 'api_token' && (age < 0 || age >= SCOPE_CACHE_MS)) {
        known.delete(token);
        return verify(token);
      }
      return used(entry);
    },
    forget: (news) => {
      generation++;
      if (news.kind === 'all') known.clear();
      else for (const [token, { caller }] of known) if (concerns(news, caller)) known.delete(token);
    },
  };
}

/** Whether the news is about the caller's token. */
export function concerns(news: TokenNews, caller: Caller): boolean {
  switch (news.kind) {
    case 'token':
      return caller.tokenId === news.id;
    case 'account':
      return caller.serviceAccount?.id === news.id;
    case 'user':
      return caller.userId === news.id;
    case 'all':
      return true;
  }
}

async function userCaller(claims: JWTPayload, directory: TokenDirectory): Promise<Caller | undefined> {
  const challenge = challengeClaimsSchema.safeParse(claims);
  if (challenge.success) {
    const { user_id, username, jti, exp, iat, epoch } = challenge.data;
    const session = { issuedAt: iat, epoch };
    return { kind: 'challenge', userId: user_id, username, isAdmin: false, tokenId: jti, expiresAt: exp, session };
  }
  const session = sessionClaimsSchema.safeParse(claims);
  if (!session.success) return undefined;
  const { user_id: userId, username, IsAdmin, jti: tokenId, iat, exp: expiresAt, epoch, via } = session.data;
  const birth = { issuedAt: iat, epoch };
  if (!(await asked(directory.knowsUser(userId, { ...birth, tokenId })))) return undefined;
  const caller = { kind: 'session', userId, username, isAdmin: IsAdmin, tokenId, expiresAt, session: birth } as const;
  if (via === undefined) return caller;
  // A key makes no administrator, whatever the token says.
  return { ...caller, isAdmin: IsAdmin && via !== 'ssh_key', via };
}

async function apiCaller(claims: JWTPayload, directory: TokenDirectory): Promise<Caller | undefined> {
  const parsed = apiTokenClaimsSchema.safeParse(claims);
  if (!parsed.success) return undefined;
  const { user_id, jti } = parsed.data;
  const grant = await asked(directory.grant(jti));
  if (grant === undefined || grant.userId !== user_id) return undefined;
  const { serviceAccountId, serviceAccount } = grant;
  return {
    kind: 'api_token',
    userId: grant.userId,
    username: grant.username,
    isAdmin: false,
    tokenId: jti,
    expiresAt: grant.expiresAt,
    scopes: grant.scopes,
    serviceAccount: serviceAccountId === null ? null : { id: serviceAccountId, name: serviceAccount ?? '' },
  };
}

/** A directory that cannot answer proves nothing, for or against: the caller should come back. */
function asked<T>(answer: Promise<T>): Promise<T> {
  return answer.catch((cause: unknown) => {
    throw new Refusal('unavailable', { message: 'The token cannot be checked at the moment: try again soon.', cause });
  });
}

/** The token of an `Authorization: Bearer` header (RFC 6750; the scheme's case does not matter), or undefined. */
export function bearer(header: string | undefined): string | undefined {
  if (header === undefined || header.length < 8 || header.slice(0, 7).toLowerCase() !== 'bearer ') return undefined;
  return header.slice(7).trim() || undefined;
}

const decoder = new TextDecoder('utf-8', { fatal: true });

/** What an `Authorization: Basic` header holds (RFC 7617, UTF-8); undefined without one. Refuses a malformed one. */
export function basic(header: string | undefined): { username: string; password: string } | undefined {
  if (header === undefined || header === '') return undefined;
  const [, encoded] = /^basic +([A-Za-z0-9+/]*={0,2}) *$/i.exec(header) ?? [];
  if (encoded === undefined || encoded.length > 2 * MAX_TOKEN_LENGTH) throw new Refusal('invalid_credentials');
  let text: string;
  try {
    text = decoder.decode(Buffer.from(encoded, 'base64'));
  } catch (cause) {
    throw new Refusal('invalid_credentials', { cause });
  }
  const colon = text.indexOf(':');
  if (colon < 0) throw new Refusal('invalid_credentials');
  return { username: text.slice(0, colon), password: text.slice(colon + 1) };
}

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
export function valuesOf(header: string, name: string): string[] {
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
