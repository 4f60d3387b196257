/**
 * Asks those who come to a guarded port who they are: for the password of its rule, or for an entry of its owner, which
 * the console makes. Whoever has shown one gets a cookie, and comes back with that.
 */
import { LRUCache } from 'lru-cache';
import {
  type AccessProofs,
  ENTRY_MS,
  ENTRY_PARAMETER,
  ENTRY_PATH,
  isEntryPath,
  PASS_SECONDS,
  type Pass,
  type PortGuard,
  passCookie,
} from '../../../proto/gateway/port-guard.ts';
import { pathOf } from '../../../proto/gateway/routes.ts';
import type { ProxyReply, ProxyRequest } from '../../../proto/gateway/traffic.ts';
import type { GatewayDeps } from '../deps.ts';
import { GivenPasswords } from './given-passwords.ts';
import {
  BUSY_REPLY,
  ELSEWHERE,
  entered,
  NO_ENTRY,
  OWNER_ONLY,
  passwordReply,
  toConsole,
  tooManyReply,
} from './replies.ts';

/** Somebody may pass at a rule. */
export interface GuardAdmission {
  readonly rule: number;
  /** The value of a Set-Cookie for the answer. */
  readonly cookie?: string;
  /** `Authorization` holds the password of the rule: it is not for the container. */
  readonly dropsAuthorization?: true;
}

/** What becomes of somebody who came to a guarded port. */
export type GuardVerdict = GuardAdmission | { readonly reply: ProxyReply };

/** Entries that are remembered as used: more cannot be made in a minute by users who are counted. */
const MOST_SPENT = 100_000;
/** Cookies of one name that are looked at. */
const MOST_COOKIES = 4;

/** `consoleOf`: the origin of the console for a browser that made this request. */
type GuardDeps = Pick<GatewayDeps, 'accessProofs' | 'passwords' | 'sharedClock'> & {
  readonly consoleOf: (request: ProxyRequest) => string;
};

export class PortGuards {
  readonly #deps: GuardDeps;
  readonly #proofs: AccessProofs;
  readonly #passwords: GivenPasswords;
  /**
   * Entries that this process took: each counts once here. Other gateways do not hear of it. Within its minute an entry
   * counts at another one, too, for the same rule, host and path, which is no more than its cookie opens.
   */
  readonly #spent = new LRUCache<string, true>({ max: MOST_SPENT, ttl: ENTRY_MS });

  constructor(deps: GuardDeps) {
    this.#deps = deps;
    this.#proofs = deps.accessProofs;
    this.#passwords = new GivenPasswords(deps.passwords, deps.sharedClock);
  }

  /** Whether a request may pass. Rejects when hashes cannot be made at all. */
  ask(request: ProxyRequest, guard: PortGuard): GuardVerdict | Promise<GuardVerdict> {
    // An entry comes from the console, and proves more than a cookie.
    if (isOfElsewhere(request) && !isEntry(request, guard)) return { reply: ELSEWHERE };
    const pass = this.#passOf(request, guard);
    return guard.hash === null
      ? this.#askOwner(request, guard, pass)
      : this.#askPassword(request, guard, guard.hash, pass);
  }

  #passOf(request: ProxyRequest, guard: PortGuard): Pass | undefined {
    const now = this.#deps.sharedClock.now();
    for (const value of cookiesOf(request, passCookie(guard))) {
      const pass = this.#proofs.readPass(value, guard, request.host, now);
      if (pass !== undefined) return pass;
    }
    return undefined;
  }

  #askPassword(
    request: ProxyRequest,
    guard: PortGuard,
    hash: string,
    pass: Pass | undefined,
  ): GuardVerdict | Promise<GuardVerdict> {
    const given = givenPassword(request.field('authorization'));
    if (pass !== undefined) {
      // Browsers send a password again and again. Any other is for the program in the container.
      const isOurs = given !== undefined && this.#proofs.passwordTags(guard, given).includes(pass.tag);
      return isOurs ? { rule: guard.rule, dropsAuthorization: true } : { rule: guard.rule };
    }
    if (given === undefined) return { reply: passwordReply(request.host) };
    const admit = (): GuardAdmission => {
      const [tag] = this.#proofs.passwordTags(guard, given);
      return { rule: guard.rule, dropsAuthorization: true, cookie: this.#cookie(guard, request.host, tag) };
    };
    const judge = (finding: Awaited<ReturnType<GivenPasswords['look']>>): GuardVerdict => {
      if (finding === 'right') return admit();
      if (finding === 'wrong') return { reply: passwordReply(request.host) };
      return { reply: finding === 'busy' ? BUSY_REPLY : tooManyReply(finding.waitMs) };
    };
    const finding = this.#passwords.look(guard, hash, given, request.address);
    return finding instanceof Promise ? finding.then(judge) : judge(finding);
  }

  #askOwner(request: ProxyRequest, guard: PortGuard, pass: Pass | undefined): GuardVerdict {
    const { method, host, target } = request;
    if (isEntry(request, guard)) return { reply: this.#enter(request, guard, pass) };
    if (pass !== undefined) return { rule: guard.rule };
    const isPage = (method === 'GET' || method === 'HEAD') && request.field('accept')?.includes('text/html') === true;
    if (!isPage || request.field('upgrade') !== undefined) return { reply: OWNER_ONLY };
    const query = new URLSearchParams({ host, port: String(guard.port), path: isEntryPath(target) ? target : '/' });
    return { reply: toConsole(`${this.#deps.consoleOf(request)}/enter?${query}`) };
  }

  #enter({ host, target }: ProxyRequest, guard: PortGuard, pass: Pass | undefined): ProxyReply {
    const token = new URLSearchParams(target.slice(ENTRY_PATH.length)).get(ENTRY_PARAMETER) ?? '';
    const entry = this.#proofs.readEntry(token, guard, host, this.#deps.sharedClock.now());
    if (entry === undefined) return NO_ENTRY;
    // The same browser may load the page again: it has its cookie.
    if (pass !== undefined) return entered(entry.path, undefined);
    if (this.#spent.has(entry.nonce)) return NO_ENTRY;
    this.#spent.set(entry.nonce, true);
    return entered(entry.path, this.#cookie(guard, host, ''));
  }

  #cookie(guard: PortGuard, host: string, tag: string): string {
    const value = this.#proofs.pass(guard, host, tag, this.#deps.sharedClock.now());
    return `${passCookie(guard)}=${value}; Path=/; Secure; HttpOnly; SameSite=Lax; Max-Age=${PASS_SECONDS}`;
  }
}

function isEntry({ method, target }: ProxyRequest, { hash }: PortGuard): boolean {
  return hash === null && method === 'GET' && pathOf(target) === ENTRY_PATH;
}

/**
 * Whether a page of another host sent a browser here, other than by a link that a person follows: with the visitor's
 * cookie or password, it would act as the visitor. Containers of one platform are one site for browsers, so SameSite
 * does not tell them apart. What is no browser says neither (Fetch Metadata; RFC 6455, section 10.2).
 */
function isOfElsewhere(request: ProxyRequest): boolean {
  const { method, host } = request;
  const [site, origin] = [request.field('sec-fetch-site'), request.field('origin')];
  if (site === 'same-origin' || site === 'none') return false;
  // Not every browser says the site, above all of a WebSocket.
  if (origin !== undefined) return !isOriginOf(host, origin);
  if (site === undefined) return false;
  const isRead = method === 'GET' || method === 'HEAD';
  return !(isRead && request.field('sec-fetch-mode') === 'navigate' && request.field('sec-fetch-dest') === 'document');
}

/** Whether an origin is one over HTTPS at this host, on any port: those are all of one container's owner. */
function isOriginOf(host: string, origin: string): boolean {
  const [, name] = /^https:\/\/([^/:@]+)(?::[0-9]{1,5})?$/.exec(origin) ?? [];
  return name === host;
}

/** The values of a request's cookies of a name. */
function cookiesOf(request: ProxyRequest, name: string): string[] {
  const pairs = (request.field('cookie') ?? '').split(';').map((pair) => pair.trim());
  const found = pairs.filter((pair) => pair.startsWith(`${name}=`));
  return found.slice(0, MOST_COOKIES).map((pair) => pair.slice(name.length + 1));
}

/** The password of HTTP Basic (RFC 7617), whatever the user name. */
function givenPassword(field: string | undefined): string | undefined {
  const [, encoded] = /^basic +([A-Za-z0-9+/_=-]+) *$/i.exec(field ?? '') ?? [];
  if (encoded === undefined) return undefined;
  const text = Buffer.from(encoded, 'base64').toString('utf8');
  const colon = text.indexOf(':');
  return colon < 0 ? undefined : text.slice(colon + 1);
}
