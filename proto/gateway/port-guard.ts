/**
 * Ingress rules that do not let everybody through (`access`), and what proves to a gateway that somebody may pass. All
 * proofs are codes by keys that are derived from JWT_SECRET, which every gateway has: what one gave, the others take.
 */
import { createHmac, type KeyObject, randomBytes, timingSafeEqual } from 'node:crypto';
import { derivedKeyring, type Keyring, type SharedSecret } from '../auth/shared-secret.ts';

/** What a rule asks of whoever comes. */
export interface PortGuard {
  readonly containerId: string;
  /** The external port of the rule. */
  readonly port: number;
  /** The rule's id: one that takes its place has another. */
  readonly rule: number;
  /** The hash of its password; null: only the owner gets through, by an entry. */
  readonly hash: string | null;
}

/** Where the gateway takes entries, at hosts of rules with access "mine". */
export const ENTRY_PATH = '/.troupe/enter';

/** The query parameter of an entry there. Access logs leave out what is in parameters of such names. */
export const ENTRY_PARAMETER = 'token';

/** How long an entry waits for its browser, ms, and how long somebody who was let in comes back without another. */
export const ENTRY_MS = 60_000;
const PASS_MS = 12 * 3_600_000;
export const PASS_SECONDS = PASS_MS / 1000;

/** Longest path and query that an entry leads to, in characters. */
const MAX_ENTRY_PATH = 2000;

const COOKIE = '__Host-troupe-access';

/** The name of a rule's cookie. Browsers send cookies to all ports of a host: those of two rules must not be one. */
export function passCookie({ port }: PortGuard): string {
  return port === 443 ? COOKIE : `${COOKIE}-${port}`;
}

/** Whether a cookie is one of those: no container gets it or sets it. */
export function isPassCookie(name: string): boolean {
  return name === COOKIE || name.startsWith(`${COOKIE}-`);
}

/** Whether a path leads to a place of the same host, whatever a browser makes of it. */
export function isEntryPath(path: string): boolean {
  // As a request line has it, and no backslash: browsers take one for a slash.
  return path.length <= MAX_ENTRY_PATH && /^\/(?!\/)[!-[\]-~]*$/.test(path);
}

/** A pass that a cookie holds. */
export interface Pass {
  /** By which the password that was given for it is known again (`passwordTag`); empty for an owner's. */
  readonly tag: string;
}

/** An entry that counts: where it leads, and what tells it from all others. */
interface PortEntry {
  readonly path: string;
  readonly nonce: string;
}

const PURPOSE = 'access of ingress rules';
/** Name of the secret, end in ms in base 36, tag of a password or none, code. */
const PASS = /^([\w-]{11})\.([0-9a-z]{1,10})\.([\w-]{22})?\.([\w-]{43})$/;
/** Name of the secret, end, nonce, path in base64url, code. */
const ENTRY = /^([\w-]{11})\.([0-9a-z]{1,10})\.([\w-]{16})\.([\w-]{1,2700})\.([\w-]{43})$/;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;

/** Makes passes and entries, and reads them. `host`: that of the request, without a port. */
export class AccessProofs {
  readonly #keyring: Keyring;
  readonly #keys: ReadonlyMap<string, KeyObject>;

  constructor(secret: SharedSecret) {
    this.#keyring = derivedKeyring(secret, PURPOSE);
    this.#keys = new Map(this.#keyring.map(({ id, key }) => [id, key]));
  }

  /** A pass for the cookie: it dies with the rule, with the secret, and after 12 hours. */
  pass(guard: PortGuard, host: string, tag: string, now: number): string {
    const [{ id, key }] = this.#keyring;
    const end = endOf(now + PASS_MS);
    return `${id}.${end}.${tag}.${passCode(key, guard, [host, end, tag])}`;
  }

  /** What a cookie holds, if it counts at this rule and host. */
  readPass(text: string, guard: PortGuard, host: string, now: number): Pass | undefined {
    const [, id = '', end = '', tag = '', code = ''] = PASS.exec(text) ?? [];
    const key = this.#keys.get(id);
    if (key === undefined || !(now < Number.parseInt(end, 36))) return undefined;
    return isSame(code, passCode(key, guard, [host, end, tag])) ? { tag } : undefined;
  }

  /** By what a rule's password is known again: it tells nothing without the key. As many as there are secrets. */
  passwordTags(guard: PortGuard, password: string): readonly [string, ...string[]] {
    const [first, ...others] = this.#keyring;
    const tagOf = ({ key }: { readonly key: KeyObject }): string =>
      hmac(key, ['password', ...partsOf(guard), password.normalize('NFC')])
        .subarray(0, TAG_BYTES)
        .toString('base64url');
    return [tagOf(first), ...others.map(tagOf)];
  }

  /** An entry of the owner: whoever has it gets a pass at this rule and host, within a minute. */
  entry(guard: PortGuard, host: string, path: string, now: number): { readonly token: string; readonly end: number } {
    const [{ id, key }] = this.#keyring;
    const nonce = randomBytes(NONCE_BYTES).toString('base64url');
    const end = endOf(now + ENTRY_MS);
    const code = entryCode(key, guard, [host, end, nonce, path]);
    const token = `${id}.${end}.${nonce}.${Buffer.from(path).toString('base64url')}.${code}`;
    return { token, end: Number.parseInt(end, 36) };
  }

  /** What an entry says, if it counts at this rule and host. */
  readEntry(text: string, guard: PortGuard, host: string, now: number): PortEntry | undefined {
    const [, id = '', end = '', nonce = '', packed = '', code = ''] = ENTRY.exec(text) ?? [];
    const key = this.#keys.get(id);
    if (key === undefined || !(now < Number.parseInt(end, 36))) return undefined;
    const path = Buffer.from(packed, 'base64url').toString();
    if (!isEntryPath(path) || !isSame(code, entryCode(key, guard, [host, end, nonce, path]))) return undefined;
    return { path, nonce };
  }
}

const endOf = (ms: number): string => Math.floor(ms).toString(36);

/** Which rule it is. The hash is in it: a database that is set back may give the id of a rule once more. */
function partsOf({ containerId, port, rule, hash }: PortGuard): string[] {
  return [containerId, String(port), String(rule), hash ?? ''];
}

/** Only the last part may hold line breaks. */
function hmac(key: KeyObject, parts: readonly string[]): Buffer {
  return createHmac('sha256', key).update(parts.join('\n')).digest();
}

const passCode = (key: KeyObject, guard: PortGuard, parts: readonly string[]): string =>
  hmac(key, ['pass', ...partsOf(guard), ...parts]).toString('base64url');

const entryCode = (key: KeyObject, guard: PortGuard, parts: readonly string[]): string =>
  hmac(key, ['entry', ...partsOf(guard), ...parts]).toString('base64url');

function isSame(given: string, wanted: string): boolean {
  const [one, other] = [Buffer.from(given), Buffer.from(wanted)];
  return one.length === other.length && timingSafeEqual(one, other);
}
