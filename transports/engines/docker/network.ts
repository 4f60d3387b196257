import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';
import { type AddressRange, parseSubnet } from '../../../lib/ipv4.ts';
import { backoffMs } from '../../../lib/waiting.ts';
import { EngineError } from '../../../proto/ports/engine.ts';
import { listOf } from '../common/calls.ts';
import { freeSubnets, routedRanges } from '../common/subnets.ts';
import { type DockerClient, isReply, unlessReply } from './api/client.ts';
import { labels, type Naming } from './naming.ts';
import { untilGone } from './removal.ts';

/** Bridges of containers begin with this, so that one firewall rule speaks of them all (firewall.ts). */
export const BRIDGE_PREFIX = 'trp';
/** Those of private networks (private-networks.ts): what follows in others are hexadecimal digits. */
export const PRIVATE_BRIDGE_PREFIX = `${BRIDGE_PREFIX}n`;

/** The option of Docker's bridge driver that says how the bridge is called. */
const BRIDGE_OPTION = 'com.docker.network.bridge.name';

/** How many subnets, and how many names of a bridge, are tried when others have them. */
const SUBNETS_TRIED = 64;

/**
 * What Docker says while its chain in the machine's firewall is away. Another Docker Engine of the machine takes it out
 * and makes it anew when it starts and ends.
 */
const CHAIN_AWAY = /chain '?DOCKER'? does not exist|no chain\/target\/match/i;
const CHAIN_TRIES = 6;
const CHAIN_PAUSE = { minMs: 50, maxMs: 800 };

/** A network without its container is swept at this age, ms: another process may be about to use a newer one. */
const ORPHAN_AGE_MS = 60_000;

const networkView = z.object({
  Id: z.string(),
  Name: z.string(),
  Created: z.string().default(''),
  Labels: z.record(z.string(), z.string()).nullable().default(null),
  Options: z.record(z.string(), z.string()).nullable().default(null),
  IPAM: z.object({ Config: listOf(z.object({ Subnet: z.string().default('') })) }).prefault({}),
});
const networkList = z.array(networkView);

/** A network as Docker describes it. */
export type DockerNetworkView = z.infer<typeof networkView>;

/** A bridge network that is to be made. */
interface NetworkRequest {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  /** Of its bridge, besides the name. */
  readonly options: Readonly<Record<string, string>>;
  /** Nothing leads out of it. */
  readonly isInternal?: boolean;
  /** Of its bridge's name on Docker's machine. */
  readonly bridgePrefix?: string;
  /** Addresses of its subnet, 8 unless more are needed. */
  readonly addresses?: number;
}

/** A bridge's name: at most 15 characters (IFNAMSIZ). `attempt`: another, for a taken one. */
function bridgeOf({ name, bridgePrefix = BRIDGE_PREFIX }: NetworkRequest, attempt = 0): string {
  const seed = attempt === 0 ? name : `${name}#${attempt}`;
  return `${bridgePrefix}${createHash('sha256').update(seed).digest('hex')}`.slice(0, 15);
}

/** The name of the bridge of a network. */
export function bridgeIn({ Options }: Pick<DockerNetworkView, 'Options'>): string | undefined {
  return Options?.[BRIDGE_OPTION];
}

/**
 * A bridge network for each container, in a subnet of eight addresses that we choose: Docker's own pools hold about
 * thirty. Docker refuses a subnet that overlaps with one of its networks, and so decides between two who want one.
 */
export class ContainerNetworks {
  readonly #client: DockerClient;
  readonly #naming: Naming;
  readonly #pool: AddressRange;
  readonly #making = new Map<string, Promise<string>>();

  constructor(client: DockerClient, naming: Naming, pool: AddressRange) {
    this.#client = client;
    this.#naming = naming;
    this.#pool = pool;
  }

  /** The bridge's name on Docker's machine. `attempt`: another, for a taken one. */
  bridge(id: string, attempt = 0): string {
    return bridgeOf(this.#request(id), attempt);
  }

  /**
   * Makes a container's network present, and resolves with the name of its bridge. Calls at the same time share one
   * creation, because Docker allows two networks of one name.
   */
  ensure(id: string): Promise<string> {
    const running = this.#making.get(id);
    if (running !== undefined) return running;
    const making = this.#ensure(id).finally(() => this.#making.delete(id));
    this.#making.set(id, making);
    return making;
  }

  /** Removes a container's network. One that Docker still counts as used is tried again for a while. */
  async remove(id: string): Promise<void> {
    const remove = () => this.#client.call('DELETE', `/networks/${this.#naming.network(id)}`);
    await untilGone(remove, (error) => isReply(error, 403, 409));
  }

  /**
   * Removes this installation's networks whose container is gone: a platform that dies between two calls leaves them.
   * `exists` says whether there is a container.
   */
  async sweep(exists: (id: string) => Promise<boolean>, olderThanMs = ORPHAN_AGE_MS): Promise<void> {
    for (const network of await this.list(this.#naming.filters())) {
      if (network.Labels?.[labels.network]) continue;
      const id = this.#naming.idOf(network.Labels);
      const age = Date.now() - Date.parse(network.Created);
      if (age < olderThanMs || (id !== undefined && (this.#making.has(id) || (await exists(id))))) continue;
      // 403: something is still in it.
      await unlessReply(this.#client.call('DELETE', `/networks/${network.Id}`), 403, 404, 409);
    }
  }

  /** The bridge of one network of this installation, if it has any. */
  async anyBridge(): Promise<string | undefined> {
    const all = await this.list(this.#naming.filters());
    return all.map(bridgeIn).find((bridge) => bridge !== undefined);
  }

  /** A network of this name; undefined when there is none. */
  find(name: string): Promise<DockerNetworkView | undefined> {
    return unlessReply(this.#client.json('GET', `/networks/${name}`, networkView), 404);
  }

  /**
   * Makes a network in a free subnet of the pool, unless there is one of its name. Resolves with it. Rejects
   * `unavailable` when no subnet is free.
   */
  async make(request: NetworkRequest): Promise<DockerNetworkView> {
    const { name, addresses } = request;
    let attempt = 0;
    let taken = routes();
    let refusal: unknown;
    const tried: AddressRange[] = [];
    for (let tries = 1; tries <= SUBNETS_TRIED; tries += 1) {
      const present = await this.find(name);
      if (present !== undefined) return present;
      const subnet = freeSubnets(this.#pool, name, [...taken, ...tried], addresses).next().value;
      if (subnet === undefined) break;
      try {
        await this.#create(request, bridgeOf(request, attempt), subnet);
      } catch (error) {
        // Somebody else made it.
        if (isReply(error, 409)) continue;
        if (!isReply(error, 400, 403, 500) || !/address pool|overlap|conflicts with/i.test(error.reason)) throw error;
        refusal = error;
        // Killed between its bridge driver's notes and its own, Docker keeps a bridge of a network that it does not
        // list, and nobody can remove.
        if (/same bridge name/i.test(error.reason)) {
          attempt += 1;
          continue;
        }
        tried.push(parseSubnet(subnet) ?? { first: 0, last: 0 });
        if (tried.length === 1) taken = [...taken, ...(await this.#subnets())];
      }
    }
    const message = 'No subnet is free for the network of this container: the pool of subnets is used up.';
    throw new EngineError('unavailable', message, { cause: refusal });
  }

  /** Networks that Docker's `filters` choose; all without them. */
  list(filters?: string): Promise<DockerNetworkView[]> {
    return this.#client.json('GET', '/networks', networkList, { query: { filters } });
  }

  async #ensure(id: string): Promise<string> {
    return bridgeIn(await this.make(this.#request(id))) ?? this.bridge(id);
  }

  #request(id: string): NetworkRequest {
    return {
      name: this.#naming.network(id),
      labels: { [labels.installation]: this.#naming.installation, [labels.container]: id },
      options: { 'com.docker.network.bridge.enable_icc': 'false' },
    };
  }

  async #create(request: NetworkRequest, bridge: string, subnet: string): Promise<void> {
    const body = {
      Name: request.name,
      Driver: 'bridge',
      CheckDuplicate: true,
      EnableIPv6: false,
      Internal: request.isInternal === true,
      Labels: request.labels,
      Options: { [BRIDGE_OPTION]: bridge, ...request.options },
      IPAM: { Config: [{ Subnet: subnet }] },
    };
    for (let tries = 1; ; tries++) {
      try {
        await this.#client.call('POST', '/networks/create', { body });
        return;
      } catch (error) {
        if (tries === CHAIN_TRIES || !isReply(error, 500) || !CHAIN_AWAY.test(error.reason)) throw error;
        await delay(backoffMs(tries - 1, CHAIN_PAUSE));
      }
    }
  }

  async #subnets(): Promise<AddressRange[]> {
    const all = await this.list();
    return all
      .flatMap(({ IPAM }) => IPAM.Config.map(({ Subnet }) => parseSubnet(Subnet)))
      .filter((range) => range !== undefined);
  }
}

/** This machine's routes: other engines' bridges, private networks. Another machine's Docker is asked only. */
function routes(): AddressRange[] {
  try {
    return routedRanges(readFileSync('/proc/net/route', 'utf8'));
  } catch {
    return [];
  }
}
