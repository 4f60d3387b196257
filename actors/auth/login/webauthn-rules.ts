/** What security keys are held to, decided without looking anywhere (WebAuthn Level 3, sections 7.1 and 7.2). */
import { CodedError } from '../../../lib/errors.ts';

/** Why a key was not accepted; `verification`: the library says no, `cause` why. */
export type KeyProblem =
  | 'malformed'
  | 'unknown_key'
  | 'origin'
  | 'attestation'
  | 'public_key'
  | 'user_handle'
  | 'signature'
  | 'counter'
  | 'verification';

/** What a browser brought does not prove what it should. */
export class KeyRejected extends CodedError<KeyProblem> {
  constructor(code: KeyProblem, cause?: unknown) {
    super(code, `the security key was not accepted: ${code}`, cause === undefined ? undefined : { cause });
  }
}

/** For whom the keys are made, and from which pages they may be used. */
export interface RelyingParty {
  /** The RP id: a domain. A key made for it works on its pages and those of its subdomains, nowhere else. */
  readonly id: string;
  /** Exactly these origins; undefined: the RP id and its subdomains on any port, but for those of `tenants`. */
  readonly origins: readonly string[] | undefined;
  /**
   * The domain under which users' containers have their names. Browsers let pages there ask for our keys, so that one
   * could pass another person's login on to us.
   */
  readonly tenants: string;
}

/** COSE algorithms (RFC 9053) in the order we like them: EdDSA, ES256, RS256. */
export const ALGORITHMS: readonly number[] = [-8, -7, -257];

/** An origin as browsers write it: lower case, no user, no path, no default port (RFC 6454, section 6.2). */
const ORIGIN = /^(https?):\/\/([a-z0-9_-]+(?:\.[a-z0-9_-]+)*)(?::([1-9][0-9]{0,4}))?$/;

/** Whether a page of this origin may use the keys. Plain HTTP only on this machine itself, as browsers have it. */
export function acceptsOrigin({ id, origins, tenants }: RelyingParty, origin: string): boolean {
  if (origins !== undefined) return origins.includes(origin);
  const [, scheme, host, port] = ORIGIN.exec(origin) ?? [];
  if (host === undefined || !isWithin(host, id) || isWithin(host, tenants)) return false;
  if (Number(port ?? 0) > 65_535 || port === (scheme === 'https' ? '443' : '80')) return false;
  return scheme === 'https' || isLocal(id);
}

function isWithin(host: string, domain: string): boolean {
  return host === domain || host.endsWith(`.${domain}`);
}

/** Names that mean this machine everywhere (RFC 6761, section 6.3). */
function isLocal(host: string): boolean {
  return isWithin(host, 'localhost');
}

/**
 * Whether a signature counter may follow the stored one: it must rise, or the key has none (both are zero). One that
 * does not rise speaks of a copied key (WebAuthn, section 7.2, step 22).
 */
export function counterAdvances(stored: number, presented: number): boolean {
  return presented > stored || (stored === 0 && presented === 0);
}

/** How a key is attached, for people: `platform` is built into the device; '' when the browser did not say. */
export function authenticatorType(attachment: string | null | undefined): string {
  return attachment === 'platform' || attachment === 'cross-platform' ? attachment : '';
}

const TRANSPORTS = ['ble', 'cable', 'hybrid', 'internal', 'nfc', 'smart-card', 'usb'];

/** The ways to reach a key that browsers understand, each once. */
export function knownTransports(given: readonly string[] | null | undefined): string[] {
  return TRANSPORTS.filter((transport) => given?.includes(transport));
}

/** The user id as authenticators keep it (`user.id`, base64url). */
export function userHandleOf(userId: string): string {
  return Buffer.from(userId, 'utf8').toString('base64url');
}
