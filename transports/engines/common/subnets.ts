import { createHash } from 'node:crypto';
import { type AddressRange, ipv4Text, parseIpv4 } from '../../../lib/ipv4.ts';
import { EngineError } from '../../../proto/ports/engine.ts';

/** Where containers' subnets are taken from unless told otherwise. */
export const DEFAULT_SUBNET_POOL = '10.192.0.0/10';

/** A container's subnet has eight addresses: the bridge's, its own, some that Docker may not have given back yet. */
const SUBNET_SIZE = 8;

/**
 * Reads `a.b.c.d/n` with n from 8 to 29. Throws EngineError `refused` when it is none, is not a network's own address,
 * or lies outside the private ranges (RFC 1918, and the shared range of RFC 6598).
 */
export function parsePool(text: string): AddressRange {
  const match = /^(\d{1,3}(?:\.\d{1,3}){3})\/(\d{1,2})$/.exec(text);
  const first = parseIpv4(match?.[1] ?? '');
  const bits = Number(match?.[2] ?? 0);
  const size = 2 ** (32 - bits);
  const isNetwork = first !== undefined && bits >= 8 && bits <= 29 && first % size === 0;
  const range = { first: first ?? 0, last: (first ?? 0) + size - 1 };
  if (!isNetwork || !privateRanges.some((own) => own.first <= range.first && range.last <= own.last)) {
    throw new EngineError('refused', `"${text}" is no pool of subnets: expected one such as ${DEFAULT_SUBNET_POOL}.`);
  }
  return range;
}

const privateRanges: readonly AddressRange[] = [
  [10, 0, 8],
  [172, 16, 12],
  [192, 168, 16],
  [100, 64, 10],
].map(([a = 0, b = 0, bits = 0]) => {
  const first = (a * 256 + b) * 65_536;
  return { first, last: first + 2 ** (32 - bits) - 1 };
});

/**
 * Subnets of the pool that none of `taken` overlaps, all of them in turn, beginning at a place that depends on `seed`:
 * two platforms, and two containers started at the same time, seldom try the same. `size`: addresses of each, a power
 * of two.
 */
export function* freeSubnets(
  pool: AddressRange,
  seed: string,
  taken: readonly AddressRange[],
  size = SUBNET_SIZE,
): Generator<string, undefined> {
  const count = Math.floor((pool.last - pool.first + 1) / size);
  const start = createHash('sha256').update(seed).digest().readUInt32BE(0) % count;
  const near = taken.filter((range) => range.first <= pool.last && range.last >= pool.first);
  for (let i = 0; i < count; i += 1) {
    const first = pool.first + ((start + i) % count) * size;
    const last = first + size - 1;
    if (!near.some((range) => range.first <= last && range.last >= first))
      yield `${ipv4Text(first)}/${32 - Math.log2(size)}`;
  }
  return undefined;
}

/** The ranges of this machine's routes in /proc/net/route (hexadecimal, little endian), without the default route. */
export function routedRanges(table: string): AddressRange[] {
  return table
    .split('\n')
    .slice(1)
    .map((line) => line.split('\t'))
    .filter((columns) => columns.length > 7)
    .map((columns) => ({ first: littleEndian(columns[1]), mask: littleEndian(columns[7]) }))
    .filter(({ mask }) => mask > 0)
    .map(({ first, mask }) => ({ first, last: first + (2 ** 32 - 1 - mask) }));
}

function littleEndian(hex = ''): number {
  return Buffer.from(hex.padStart(8, '0').slice(0, 8), 'hex').readUInt32LE(0);
}
