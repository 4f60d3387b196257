/** When a certificate is renewed, when an order is tried again, and what people are told meanwhile. Pure. */
import type { CaError, CaErrorCode } from '../../proto/ports/acme.ts';
import type { HostAddresses } from '../../proto/ports/dns.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

/** After a refusal: at most four an hour, as authorities count failures (the largest takes five an hour and name). */
const AFTER_REFUSAL = [2 * MINUTE, 10 * MINUTE, 30 * MINUTE, HOUR, 2 * HOUR, 4 * HOUR, 8 * HOUR, 12 * HOUR];
/** When the authority is away, nothing is counted. */
const AFTER_OUTAGE = [2000, 5000, 15_000, 30_000, MINUTE, 2 * MINUTE, 5 * MINUTE, 10 * MINUTE];
/** What users can mend: a verify of theirs brings the next try forward, but authorities count those that fail. */
const HASTENED: ReadonlySet<string> = new Set(['refused', 'bad_answer']);
export const PAUSE_BEFORE_HASTE_MS = 15 * MINUTE;

/** Looks at one order that does not get on: half an hour the first time. Then another is placed. */
const LOOKS_AT_STUCK = 10;
/** The code of a try that asked no authority: DNS leads nowhere. */
export const NO_ADDRESS = 'no_address';
/** Asked to wait without a time. */
const UNTOLD_WAIT = HOUR;

/**
 * A third of its life before a certificate ends; and never before a sixth of its life has passed here, so that a clock
 * that is wrong by days, or an authority that gives old certificates, cannot make us order again and again.
 */
export function renewAt({ notBefore, notAfter }: { notBefore: Date; notAfter: Date }, now: Date): Date {
  const life = Math.max(0, notAfter.getTime() - notBefore.getTime());
  return new Date(Math.max(notAfter.getTime() - life / 3, now.getTime() + Math.max(life / 6, MINUTE)));
}

/** Failures that no authority counts: it was not there, or not asked. */
const UNCOUNTED: ReadonlySet<string> = new Set(['unavailable', 'stuck', 'no_order', 'no_account', NO_ADDRESS]);

/**
 * How long to wait after the `attempts`-th failure in a row (from 1), ms. The authority's own word is never undercut.
 */
export function retryIn(
  error: { readonly code: CaErrorCode | typeof NO_ADDRESS; readonly retryAfterMs?: number | undefined },
  attempts: number,
  random: number,
): number {
  const steps = UNCOUNTED.has(error.code) ? AFTER_OUTAGE : AFTER_REFUSAL;
  const step = steps[Math.min(Math.max(attempts, 1), steps.length) - 1] ?? HOUR;
  const own = error.code === 'rate_limited' && error.retryAfterMs === undefined ? UNTOLD_WAIT : step;
  // Many names fail together, and are not to come back together.
  return Math.round(Math.max(own, error.retryAfterMs ?? 0) * (1 + random / 10));
}

/** Whether the order is of no more use after the `attempts`-th failure in a row: the next try places another. */
export function isGivenUp({ code }: Pick<CaError, 'code'>, attempts: number): boolean {
  if (code === 'stuck') return attempts % LOOKS_AT_STUCK === 0;
  // One whose authority is away, or asks to wait, is taken up again.
  return code !== 'unavailable' && code !== 'rate_limited';
}

/** For the user of a hostname that leads nowhere. */
export function leadsNowhere(hostname: string, ingressHost: string): string {
  return (
    `${hostname} has no address in DNS yet. Once it is a CNAME of ${ingressHost}, HTTPS follows by itself, at ` +
    'once after a verify'
  );
}

/** What to look at when the authority could not verify a hostname. `host`, `ingress`: what was found in DNS. */
export function whatToCheck(
  hostname: string,
  host: HostAddresses,
  ingressHost: string,
  ingress: HostAddresses,
): string {
  if (
    host.kind === 'found' &&
    ingress.kind === 'found' &&
    !host.addresses.some((one) => ingress.addresses.includes(one))
  )
    return (
      `${hostname} leads to ${list(host.addresses)}, and not to ${ingressHost} (${list(ingress.addresses)}): make ` +
      `it a CNAME of ${ingressHost}`
    );
  return `Check that ${hostname} is a CNAME of ${ingressHost}, and that its port 443 is open to the world`;
}

/** Addresses that are shown. */
const SHOWN = 3;

function list(addresses: readonly string[]): string {
  return addresses.length > SHOWN ? `${addresses.slice(0, SHOWN).join(', ')} and others` : addresses.join(', ');
}

/**
 * Whether a limit is the whole account's: it was met when the order was placed, and the authority's words name neither
 * the hostname nor a domain above it.
 */
export function concernsAccount(error: CaError, hostname: string): boolean {
  if (error.code !== 'rate_limited' || !error.isAtOrder) return false;
  const labels = hostname.split('.');
  return !labels.slice(0, -1).some((_, i) => error.message.toLowerCase().includes(labels.slice(i).join('.')));
}

/** What users are told where nothing can be ordered. */
export const NO_AUTHORITY =
  'HTTPS is not served: this platform has no certificate authority. Its operator can set ACME_DIRECTORY_URL or ' +
  'ACME_EMAIL.';

/** What is known of a certificate. */
interface CertificateFacts {
  readonly notAfter: Date | undefined;
  readonly isOrdering: boolean;
  readonly attempts: number;
  readonly nextTry: Date | undefined;
  readonly error: string | undefined;
  /** The authority's name for it; undefined when the words are our own. */
  readonly problem?: string | undefined;
  readonly code?: string | undefined;
}

/** What the user of a verified mapping is told; undefined when there is nothing to say: HTTPS works. */
export function certificateDetail(
  facts: CertificateFacts | undefined,
  account: {
    readonly left: number;
    readonly holdUntil: Date | undefined;
    readonly holdReason: string | undefined;
  },
  now: Date,
): string | undefined {
  const { notAfter, isOrdering = false, attempts = 0, nextTry, error, problem, code } = facts ?? {};
  const isServed = notAfter !== undefined && notAfter > now;
  if (isServed && error === undefined) return undefined;
  const parts: string[] = [];
  if (notAfter !== undefined)
    parts.push(`The certificate ${isServed ? 'is good until' : 'has been over since'} ${notAfter.toISOString()}.`);
  if (error !== undefined)
    parts.push(problem === undefined ? sentence(error) : `The certificate authority says: ${sentence(error)}`);
  if (isOrdering) parts.push('A certificate is being ordered.');
  else if (account.holdUntil !== undefined)
    parts.push(
      `It takes no more orders of this platform until ${account.holdUntil.toISOString()}: ` +
        `${sentence(account.holdReason ?? 'too many')}`,
    );
  else if (account.left < 1)
    parts.push('This platform has placed as many orders as it may; the next follow within the hour.');
  else if (nextTry !== undefined && nextTry > now)
    parts.push(
      `${code === NO_ADDRESS ? 'Looked' : 'Tried'} ${attempts === 1 ? 'once' : `${attempts} times`}; next try at ` +
        `${nextTry.toISOString()}${HASTENED.has(code ?? '') ? ', or sooner after a verify' : ''}.`,
    );
  else parts.push('A certificate will be ordered in a moment.');
  return parts.join(' ');
}

function sentence(text: string): string {
  return /[.!?]$/.test(text) ? text : `${text}.`;
}
