/** Which hostnames may be mapped, and in which form they are kept: as pure functions. */
import { domainToASCII, domainToUnicode } from 'node:url';
import { parse } from 'tldts';

/** What the platform keeps for itself: these names and all below them. */
export interface OwnNames {
  readonly domain: string;
  readonly containersDomain: string;
  readonly ingressHost: string;
  readonly registryHost: string | undefined;
}

/** Longest host name in ASCII without the last dot (RFC 1035, section 2.3.4, less the length octets). */
const MAX_LENGTH = 253;
const LABEL = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/;
/** Names that no public DNS serves (RFC 6761, RFC 6762, RFC 7686), so nobody can prove one. */
const NOBODYS = new Set(['localhost', 'local', 'invalid', 'onion']);

/**
 * The form in which a hostname is kept and compared: lower case, ASCII (punycode), without the last dot. Undefined when
 * no mapping may have it: no host name at all (wildcards, addresses, underscores, too long), a single label, a public
 * suffix, or a name of the platform's own.
 */
export function normalHostname(text: string, own: OwnNames): string | undefined {
  const name = asciiOf(text.endsWith('.') ? text.slice(0, -1) : text);
  if (name === undefined || name.length > MAX_LENGTH) return undefined;
  const labels = name.split('.');
  const last = labels.at(-1) ?? '';
  if (labels.length < 2 || !labels.every(isLabel)) return undefined;
  // What ends in a number is an IPv4 address to browsers, in whatever notation (WHATWG URL, "ends in a number").
  if (/^([0-9]+|0x[0-9a-f]*)$/.test(last) || NOBODYS.has(last)) return undefined;
  // On private suffixes (github.io) the names below belong to different people, like below a top-level domain.
  if (parse(name, { allowPrivateDomains: true }).publicSuffix === name) return undefined;
  return isOwn(name, own) ? undefined : name;
}

/** The hostname and its parents, longest first: the zones that could cover it. */
export function zoneNames(hostname: string): string[] {
  const labels = hostname.split('.');
  return labels.map((_, index) => labels.slice(index).join('.'));
}

/** The domain that somebody registered, of which the hostname is part; the hostname where no such is known. */
export function registrableOf(hostname: string): string {
  return parse(hostname, { allowPrivateDomains: true }).domain ?? hostname;
}

/** Where the TXT record stands. */
export function verifyName(hostname: string): string {
  return `_svc-verify.${hostname}`;
}

/** Whether the TXT record's name fits into DNS. */
export function isProvable(hostname: string): boolean {
  return verifyName(hostname).length <= MAX_LENGTH;
}

function asciiOf(text: string): string | undefined {
  if (/^[\x21-\x7e]*$/.test(text)) return text.toLowerCase();
  // Spaces and controls are no letters; the library would pass some of them by.
  if (/[\p{C}\p{Z}]/u.test(text)) return undefined;
  return domainToASCII(text) || undefined;
}

function isLabel(label: string): boolean {
  if (!LABEL.test(label)) return false;
  if (!label.startsWith('xn--')) return label.slice(2, 4) !== '--';
  // Punycode has one valid form of each name.
  const unicode = domainToUnicode(label);
  return unicode !== '' && unicode !== label && domainToASCII(unicode) === label;
}

function isOwn(name: string, { domain, containersDomain, ingressHost, registryHost }: OwnNames): boolean {
  const own = [domain, containersDomain, ingressHost, (registryHost ?? '').replace(/:[0-9]+$/, '')];
  return own
    .map((host) => host.toLowerCase().replace(/\.$/, ''))
    .some((host) => host !== '' && (name === host || name.endsWith(`.${host}`)));
}
