/** What a container may have and reach: capabilities of root, paths that it keeps, networks. */
import { posix } from 'node:path';
import { networkOf, parseSubnet } from '../../../lib/ipv4.ts';
import { EngineError } from '../../../proto/ports/engine.ts';

/**
 * The capabilities of root (capabilities(7)) that a container keeps: what sshd (SYS_CHROOT, SETUID, SETGID, KILL,
 * AUDIT_WRITE, CHOWN for terminals) and a package manager (CHOWN, DAC_OVERRIDE, FOWNER, FSETID, SETFCAP for packages
 * with file capabilities) need, and ports below 1024. Everything else is dropped.
 */
export const keptCapabilities: readonly string[] = [
  'AUDIT_WRITE',
  'CHOWN',
  'DAC_OVERRIDE',
  'FOWNER',
  'FSETID',
  'KILL',
  'NET_BIND_SERVICE',
  'SETFCAP',
  'SETGID',
  'SETUID',
  'SYS_CHROOT',
];

/**
 * The mount paths in a normal form, without doubles. Throws EngineError `refused` for a path that is relative, is or
 * climbs above the root, holds control characters or a colon, or hides what the kernel or the platform puts there.
 */
export function checkedMountPaths(paths: readonly string[]): string[] {
  const normal = paths.map((path) => {
    const clean = posix.normalize(path).replace(/\/+$/, '');
    const reserved = /^\/(?:proc|sys|dev|run|var\/run|etc\/troupe)(?:\/|$)/.test(clean) || clean === '/etc';
    const bad = !path.startsWith('/') || clean === '' || path.split('/').includes('..') || reserved;
    if (bad || path.length > 4096 || /[\p{Cc}:]/u.test(path)) {
      throw new EngineError('refused', `Cannot keep data at ${JSON.stringify(path.slice(0, 200))}.`);
    }
    return clean;
  });
  return [...new Set(normal)].sort();
}

/** Where clouds tell a machine its credentials: link-local (RFC 3927; AWS, Google, most), Alibaba, Azure, Oracle. */
const metadataNetworks = ['169.254.0.0/16', '100.100.100.200/32', '168.63.129.16/32', '192.0.0.192/32'];

/** Private networks (RFC 1918) and those of providers (RFC 6598): where the operator's databases and brokers are. */
const privateNetworks = ['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', '100.64.0.0/10'];

/** Most networks in a list. */
const MAX_NETWORKS = 64;

/**
 * Reads networks that containers may reach though closed by default: `a.b.c.d/n` or addresses, separated by commas.
 * Undefined when one is none, is not a network's own address, or there are over 64. IPv4 only: they have no other.
 */
export function parseEgress(text: string): readonly string[] | undefined {
  const networks = text.split(',').map((entry) => networkOf(entry.trim()));
  if (networks.length > MAX_NETWORKS || networks.includes(undefined)) return undefined;
  return [...new Set(networks.filter((network) => network !== undefined))].sort();
}

/** Whether `network` is `other` or a part of it. */
function isWithin(network: string, other: string): boolean {
  const [inner, outer] = [parseSubnet(network), parseSubnet(other)];
  return inner !== undefined && outer !== undefined && outer.first <= inner.first && inner.last <= outer.last;
}

function isMetadata(network: string): boolean {
  return metadataNetworks.some((metadata) => isWithin(network, metadata));
}

/**
 * What leaves containers for elsewhere, as rules of iptables in their order. A metadata address is open only when the
 * list names it or a network inside its range: `10.0.0.0/8` or `0.0.0.0/0` does not. Mail (port 25) goes to networks of
 * the list only, so that the machine's address does not come to stand on lists of senders of spam.
 */
export function egressRules(allowed: readonly string[]): readonly string[] {
  const to = (network: string, verdict: string): string => `-d ${network} -j ${verdict}`;
  return [
    ...allowed.filter(isMetadata).map((network) => to(network, 'RETURN')),
    ...metadataNetworks.map((network) => to(network, 'DROP')),
    ...allowed.filter((network) => !isMetadata(network)).map((network) => to(network, 'RETURN')),
    ...privateNetworks.map((network) => to(network, 'DROP')),
    '-p tcp --dport 25 -j DROP',
  ];
}

/** A block of addresses of a NetworkPolicy (networking.k8s.io/v1, IPBlock). */
interface IpBlock {
  readonly cidr: string;
  readonly except?: readonly string[];
}

/** The API server refuses an exception that is not inside the block, or is all of it. */
function block(cidr: string, closed: readonly string[]): IpBlock {
  const except = closed.filter((network) => network !== cidr && isWithin(network, cidr));
  return except.length === 0 ? { cidr } : { cidr, except };
}

/**
 * The same as blocks that containers may reach. Network policies only open, so port 25 cannot be taken out. With
 * `egress`, networks of one container, what of them is open to containers at all.
 */
export function egressBlocks(allowed: readonly string[], egress?: readonly string[]): readonly IpBlock[] {
  const everywhere = block('0.0.0.0/0', [
    ...privateNetworks,
    ...metadataNetworks.filter((network) => !privateNetworks.some((other) => isWithin(network, other))),
  ]);
  const all = [everywhere, ...allowed.map((network) => block(network, metadataNetworks))];
  return egress === undefined ? all : egress.flatMap((network) => all.flatMap((one) => within(network, one)));
}

/** What a network and a block have in common: of two blocks of addresses one is a part of the other, or nothing is. */
function within(network: string, { cidr, except = [] }: IpBlock): readonly IpBlock[] {
  const common = isWithin(network, cidr) ? network : isWithin(cidr, network) ? cidr : undefined;
  if (common === undefined || except.some((closed) => isWithin(common, closed))) return [];
  return [block(common, except)];
}
