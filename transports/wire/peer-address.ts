/** Peers by their address: proxies, whose word about their clients is taken, and this machine itself. */
import { BlockList, isIP } from 'node:net';

/** Whether the peer at this address may speak for others. */
export type IsTrusted = (address: string) => boolean;

/** Reads addresses and networks (`10.0.0.0/8,2001:db8::/32`), separated by commas; undefined when one is none. */
export function parseTrusted(text: string): IsTrusted | undefined {
  const list = new BlockList();
  for (const entry of text.split(',').map((part) => part.trim())) {
    const [address = '', bits, ...more] = entry.split('/');
    const family = isIP(address);
    const most = family === 6 ? 128 : 32;
    // A zone (RFC 4007, section 11) means something on one machine only.
    if (family === 0 || address.includes('%') || more.length > 0) return undefined;
    if (bits !== undefined && (!/^(0|[1-9][0-9]{0,2})$/.test(bits) || Number(bits) > most)) return undefined;
    list.addSubnet(address, bits === undefined ? most : Number(bits), family === 6 ? 'ipv6' : 'ipv4');
  }
  return membership(list);
}

/**
 * The client behind `peer`, by the X-Forwarded-For fields of its request, in order. Each trusted proxy wrote the
 * last one down; the first that is not trusted is the client, and what stands before it is only its word. What
 * is no address ends the search.
 */
export function clientBehind(peer: string, forwardedFor: readonly string[], isTrusted: IsTrusted): string {
  let client = peer;
  const hops = forwardedFor.flatMap((value) => value.split(',')).map((hop) => hop.trim());
  while (isTrusted(client)) {
    const before = hops.pop();
    if (before === undefined || isIP(before) === 0) break;
    client = before;
  }
  return client;
}

/**
 * Whether the X-Forwarded-Proto fields of a request, in order, say that its client spoke TLS: by the last word, which
 * the nearest proxy wrote. Some write `wss` for the upgrade to a WebSocket.
 */
export function saysHttps(forwardedProto: readonly string[]): boolean {
  const word = forwardedProto.at(-1)?.split(',').at(-1)?.trim().toLowerCase();
  return word === 'https' || word === 'wss';
}

const LOOPBACK = new BlockList();
LOOPBACK.addSubnet('127.0.0.0', 8);
LOOPBACK.addAddress('::1', 'ipv6');

/** Whether the address is one of this machine's own, which no other reaches. */
export const isLoopback = membership(LOOPBACK);

function membership(list: BlockList): (address: string) => boolean {
  return (address) => {
    const family = isIP(address);
    return family !== 0 && list.check(address, family === 6 ? 'ipv6' : 'ipv4');
  };
}
