/** Addresses and networks of IPv4, as texts and as numbers. */

/** A run of addresses as numbers, both ends included. */
export interface AddressRange {
  readonly first: number;
  readonly last: number;
}

/** An address as a number; undefined when it is none. */
export function parseIpv4(text: string): number | undefined {
  const parts = text.split('.').map(Number);
  if (parts.length !== 4 || parts.some((part) => !Number.isInteger(part) || part < 0 || part > 255)) return undefined;
  return parts.reduce((sum, part) => sum * 256 + part, 0);
}

/** A number as an address. */
export function ipv4Text(address: number): string {
  return [24, 16, 8, 0].map((shift) => Math.floor(address / 2 ** shift) % 256).join('.');
}

/** The range of `a.b.c.d/n`, whichever of its addresses is written; undefined for IPv6 and what is none. */
export function parseSubnet(text: string): AddressRange | undefined {
  const [address = '', bits = ''] = text.split('/');
  const first = parseIpv4(address);
  if (first === undefined || !/^\d{1,2}$/.test(bits) || Number(bits) > 32) return undefined;
  const size = 2 ** (32 - Number(bits));
  const start = Math.floor(first / size) * size;
  return { first: start, last: start + size - 1 };
}

/** A network or an address alone as `a.b.c.d/n`; undefined when it is none, or not written with its first address. */
export function networkOf(text: string): string | undefined {
  const [address, bits = '32', ...more] = text.split('/');
  const range = parseSubnet(`${address}/${bits}`);
  if (range === undefined || more.length > 0 || ipv4Text(range.first) !== address) return undefined;
  return `${address}/${Number(bits)}`;
}
