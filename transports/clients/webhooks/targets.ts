/** Which addresses the platform calls because a user named them. */
import { BlockList, isIP } from 'node:net';
import { networkInterfaces } from 'node:os';

/** Most networks in a list of the operator's. */
const MAX_NETWORKS = 64;

/** IPv4 that is not the public internet (IANA's special-purpose registry), and where clouds tell credentials. */
const CLOSED_4 = [
  ...['0.0.0.0/8', '10.0.0.0/8', '100.64.0.0/10', '127.0.0.0/8', '169.254.0.0/16', '172.16.0.0/12', '192.0.0.0/24'],
  ...['192.0.2.0/24', '192.88.99.0/24', '192.168.0.0/16', '198.18.0.0/15', '198.51.100.0/24', '203.0.113.0/24'],
  ...['224.0.0.0/4', '240.0.0.0/4', '168.63.129.16/32'],
];
/** IPv6 that is public: of it, what leads to IPv4 by a tunnel, or is for documents, is closed again. */
const OPEN_6 = ['2000::/3'];
const CLOSED_6 = ['2001::/23', '2001:db8::/32', '2002::/16', '3fff::/20'];

/** A set of networks. */
export type Networks = (address: string) => boolean;

/**
 * Reads networks such as `10.0.0.0/8, fd00::/8`, separated by commas. Undefined when one is none, or there are over 64.
 */
export function parseNetworks(text: string): Networks | undefined {
  const entries = text.split(',').map((part) => part.trim());
  if (entries.length > MAX_NETWORKS) return undefined;
  const list = new BlockList();
  for (const entry of entries) {
    const [address = '', bits, ...more] = entry.split('/');
    const family = isIP(address);
    const most = family === 6 ? 128 : 32;
    if (family === 0 || address.includes('%') || more.length > 0) return undefined;
    if (bits !== undefined && (!/^(0|[1-9][0-9]{0,2})$/.test(bits) || Number(bits) > most)) return undefined;
    list.addSubnet(address, bits === undefined ? most : Number(bits), family === 6 ? 'ipv6' : 'ipv4');
  }
  return (address) => {
    const family = isIP(address);
    return family !== 0 && list.check(address, family === 6 ? 'ipv6' : 'ipv4');
  };
}

function networks(entries: readonly string[]): Networks {
  const read = parseNetworks(entries.join(','));
  if (read === undefined) throw new TypeError('not a list of networks');
  return read;
}

const isClosed4 = networks(CLOSED_4);
const isOpen6 = networks(OPEN_6);
const isClosed6 = networks(CLOSED_6);

/** Whether the address is one of the public internet, and none of this machine's own. */
export function isPublic(address: string): boolean {
  const family = isIP(address);
  if (family === 0 || address.includes('%')) return false;
  if (family === 4 ? isClosed4(address) : !isOpen6(address) || isClosed6(address)) return false;
  return !ownAddresses().has(address);
}

function ownAddresses(): Set<string> {
  return new Set(Object.values(networkInterfaces()).flatMap((all) => all?.map(({ address }) => address) ?? []));
}

/** Whether a port may be called: those of HTTP, and those that no service of the system has. */
export function isCallablePort(port: number): boolean {
  return port === 80 || port === 443 || port >= 1024;
}
