/**
 * What counts as one client when addresses are counted. Whoever has one IPv6 address has a whole /64 (RFC 6177), and a
 * site is commonly given a /48: so addresses are counted by network, and networks of one site once more together.
 */

/** What an address is counted under. */
export interface ClientNetwork {
  /** IPv4 as it is, also when mapped into IPv6; the first 64 bits of IPv6. Other text as it is. */
  readonly network: string;
  /** The same with the first 48 bits of IPv6. */
  readonly site: string;
}

/** What `address` is counted under. */
export function clientNetworkOf(address: string): ClientNetwork {
  const plain = address.includes('%') ? address.slice(0, address.indexOf('%')) : address;
  const groups = plain.includes(':') ? groupsOf(plain.toLowerCase()) : undefined;
  if (groups === undefined) return same(plain.toLowerCase().slice(0, MAX_TEXT));
  const [g6 = 0, g7 = 0] = groups.slice(6);
  if (groups.slice(0, 5).every((group) => group === 0) && groups[5] === 0xffff)
    return same([g6 >> 8, g6 & 255, g7 >> 8, g7 & 255].join('.'));
  const [a, b, c, d] = groups.slice(0, 4).map((group) => group.toString(16));
  return { network: `${a}:${b}:${c}:${d}::/64`, site: `${a}:${b}:${c}::/48` };
}

export function networkOf(address: string): string {
  return clientNetworkOf(address).network;
}

export function siteOf(address: string): string {
  return clientNetworkOf(address).site;
}

/** Longest text that is kept of what is no address. */
const MAX_TEXT = 64;

function same(text: string): ClientNetwork {
  return { network: text, site: text };
}

/** The eight groups of an IPv6 address (RFC 4291, section 2.2), or undefined. */
function groupsOf(text: string): number[] | undefined {
  const hex = !text.includes('.')
    ? text
    : text.replace(/(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})$/, (_all, ...parts: string[]) => {
        const [a = 0, b = 0, c = 0, d = 0] = parts.slice(0, 4).map(Number);
        return `${(a * 256 + b).toString(16)}:${(c * 256 + d).toString(16)}`;
      });
  const [head = '', tail, more] = hex.split('::');
  if (more !== undefined) return undefined;
  const split = (part: string) => (part === '' ? [] : part.split(':'));
  const [left, right] = [split(head), split(tail ?? '')];
  const missing = 8 - left.length - right.length;
  if (tail === undefined ? missing !== 0 : missing < 1) return undefined;
  const groups = [...left, ...Array.from({ length: missing }, () => '0'), ...right];
  if (!groups.every((group) => /^[0-9a-f]{1,4}$/.test(group))) return undefined;
  return groups.map((group) => Number.parseInt(group, 16));
}
