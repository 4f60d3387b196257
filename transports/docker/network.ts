import { createHash } from 'node:crypto';
import { networkInterfaces } from 'node:os';
import type { DockerClient } from './client.ts';
import { isReply } from './errors.ts';
import { labels, type Naming } from './naming.ts';

/** How many subnets are tried once Docker's own are used up. */
const subnetsTried = 32;

/**
 * Makes the installation's bridge network present: containers reach the world and the host reaches them, but not one another
 * (`enable_icc=false`). Calls at the same time share one creation, because Docker allows two networks of one name.
 */
export function networkEnsurer(client: DockerClient, naming: Naming): () => Promise<void> {
  let running: Promise<void> | undefined;
  return () => {
    running ??= ensureNetwork(client, naming).finally(() => {
      running = undefined;
    });
    return running;
  };
}

async function ensureNetwork(client: DockerClient, naming: Naming): Promise<void> {
  try {
    await client.call('GET', `/networks/${naming.network}`);
    return;
  } catch (error) {
    if (!isReply(error, 404)) throw error;
  }
  // Docker's default pools hold about thirty networks, and other software on the machine takes from the same ranges.
  const subnets = [undefined, ...freeSubnets(naming.installation, ownAddresses())];
  for (const [index, subnet] of subnets.entries()) {
    try {
      await createNetwork(client, naming, subnet);
      return;
    } catch (error) {
      if (isReply(error, 409)) return;
      const taken = isReply(error, 400, 403, 404, 500) && /address pool|overlap/i.test(error.reason);
      if (!taken || index === subnets.length - 1) throw error;
    }
  }
}

async function createNetwork(client: DockerClient, naming: Naming, subnet: string | undefined): Promise<void> {
  const body = {
    Name: naming.network,
    Driver: 'bridge',
    CheckDuplicate: true,
    Labels: { [labels.installation]: naming.installation },
    Options: { 'com.docker.network.bridge.enable_icc': 'false' },
    ...(subnet === undefined ? {} : { IPAM: { Config: [{ Subnet: subnet }] } }),
  };
  await client.call('POST', '/networks/create', { body });
}

/**
 * Subnets of 4,094 addresses in 10.192.0.0/10 that none of `taken` (IPv4 addresses of this machine) lies in, beginning at a place
 * that depends on the installation, so that two on one machine seldom try the same.
 */
export function freeSubnets(installation: string, taken: readonly string[]): string[] {
  const blocks = 64 * 16;
  const blockOf = (address: string): string => {
    const [a = 0, b = 0, c = 0] = address.split('.').map(Number);
    return `${a}.${b}.${c & 0xf0}`;
  };
  const used = new Set(taken.map(blockOf));
  const first = createHash('sha256').update(installation).digest().readUInt16BE(0);
  return Array.from({ length: blocks }, (_, i) => (first + i) % blocks)
    .map((block) => `10.${192 + (block >> 4)}.${(block & 15) << 4}`)
    .filter((prefix) => !used.has(prefix))
    .slice(0, subnetsTried)
    .map((prefix) => `${prefix}.0/20`);
}

function ownAddresses(): string[] {
  return Object.values(networkInterfaces()).flatMap((addresses) =>
    (addresses ?? []).filter(({ family }) => family === 'IPv4').map(({ address }) => address),
  );
}
