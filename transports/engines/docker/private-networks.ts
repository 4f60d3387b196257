import { z } from 'zod';
import { ipv4Text, parseIpv4, parseSubnet } from '../../../lib/ipv4.ts';
import { EngineError, type PrivateNetwork } from '../../../proto/ports/engine.ts';
import { type DockerClient, isReply, unlessReply } from './api/client.ts';
import type { DockerContainerView } from './container-view.ts';
import { labels, type Naming } from './naming.ts';
import { bridgeIn, type ContainerNetworks, type DockerNetworkView, PRIVATE_BRIDGE_PREFIX } from './network.ts';

/** Addresses of a private network: its places, its own, that of the gateway it does not have, broadcast. */
const ADDRESSES = 16;
/** An empty network is swept at this age, ms: another process may be about to use a newer one. */
const ORPHAN_AGE_MS = 60_000;
/** How often a network is made anew that others remove as empty before the container is in it. */
const JOIN_TRIES = 5;

const containerIds = z.array(z.object({ Id: z.string() }));

type Attachment = NonNullable<NonNullable<DockerContainerView['NetworkSettings']['Networks']>[string]>;

/**
 * Networks that containers of one user share, besides the network that each has for itself. Nothing leads out of one,
 * and the machine has no address in it. Docker answers for the aliases. A member has the address of its place for as
 * long as the network stands: whoever remembers an answer does not reach another member by it.
 */
export class PrivateNetworks {
  readonly #client: DockerClient;
  readonly #naming: Naming;
  readonly #networks: ContainerNetworks;

  constructor(client: DockerClient, naming: Naming, networks: ContainerNetworks) {
    this.#client = client;
    this.#naming = naming;
    this.#networks = networks;
  }

  /** Docker's names of the private networks that a container is in. */
  joinedBy({ NetworkSettings }: DockerContainerView): readonly string[] {
    return Object.keys(NetworkSettings.Networks ?? {}).filter(
      (name) => this.#naming.privateNetworkOf(name) !== undefined,
    );
  }

  /** The private network that a container is in, or is in once it runs; undefined: none. */
  membershipOf(view: DockerContainerView): PrivateNetwork | undefined {
    const [dockerName = ''] = this.joinedBy(view);
    const network = this.#naming.privateNetworkOf(dockerName);
    const endpoint = view.NetworkSettings.Networks?.[dockerName];
    if (network === undefined || !endpoint) return undefined;
    const address = parseIpv4(endpoint.IPAMConfig?.IPv4Address ?? '');
    const place = address === undefined ? 0 : (address % ADDRESSES) - 1;
    return { ...network, alias: aliasOf(view, endpoint), place };
  }

  /** As `Engine.join`. `guard` is called before a running container is let in, with the bridge of the network. */
  async join(
    view: DockerContainerView,
    wanted: PrivateNetwork | undefined,
    guard: (bridge: string) => Promise<void>,
  ): Promise<void> {
    const name = wanted && this.#naming.privateNetwork(wanted.owner, wanted.name);
    for (const other of this.joinedBy(view).filter((one) => one !== name)) {
      await this.#disconnect(view, other);
      await this.removeEmpty(other);
    }
    if (wanted === undefined || name === undefined) return;
    let isConnected = this.joinedBy(view).includes(name);
    for (let tries = 1; ; tries += 1) {
      const network = await this.#ensure(wanted);
      if (isConnected && this.#fits(view, wanted, network)) return;
      if (isConnected) await this.#disconnect(view, name);
      isConnected = false;
      await guard(bridgeIn(network) ?? '');
      try {
        await this.#client.call('POST', `/networks/${network.Id}/connect`, {
          body: {
            Container: view.Id,
            EndpointConfig: {
              ...(wanted.alias === null ? {} : { Aliases: [wanted.alias] }),
              IPAMConfig: { IPv4Address: addressIn(network, wanted.place) },
            },
          },
        });
        return;
      } catch (error) {
        // It was removed meanwhile, as its last member left it.
        if (isReply(error, 404) && tries < JOIN_TRIES && /network/i.test(error.reason)) continue;
        if (!isReply(error, 400, 403, 409, 500)) throw error;
        // Who had the place before has not left yet.
        throw new EngineError('unavailable', `The container cannot join ${wanted.name} yet: ${error.reason}`, {
          cause: error,
        });
      }
    }
  }

  /** Removes a private network that has no member, running or not. */
  async removeEmpty(dockerName: string): Promise<void> {
    const filters = JSON.stringify({ network: [dockerName] });
    const members = await this.#client.json('GET', '/containers/json', containerIds, { query: { all: true, filters } });
    // 403: somebody has come in.
    if (members.length === 0) await unlessReply(this.#client.call('DELETE', `/networks/${dockerName}`), 403, 404, 409);
  }

  /** Removes this installation's private networks that a platform left which died between two calls. */
  async sweep(olderThanMs = ORPHAN_AGE_MS): Promise<void> {
    for (const { Name, Labels, Created } of await this.#networks.list(this.#naming.filters())) {
      if (Labels?.[labels.network] && Date.now() - Date.parse(Created) >= olderThanMs) await this.removeEmpty(Name);
    }
  }

  #ensure({ owner, name }: PrivateNetwork): Promise<DockerNetworkView> {
    return this.#networks.make({
      name: this.#naming.privateNetwork(owner, name),
      labels: {
        [labels.installation]: this.#naming.installation,
        [labels.user]: owner,
        [labels.network]: name,
      },
      options: { 'com.docker.network.bridge.inhibit_ipv4': 'true' },
      isInternal: true,
      bridgePrefix: PRIVATE_BRIDGE_PREFIX,
      addresses: ADDRESSES,
    });
  }

  /** Whether a container is in the network as it should be, and not in one of its name that was removed since. */
  #fits(view: DockerContainerView, { alias, place }: PrivateNetwork, network: DockerNetworkView): boolean {
    const endpoint = view.NetworkSettings.Networks?.[network.Name];
    if (!endpoint) return false;
    const isSame = endpoint.NetworkID === network.Id || (endpoint.NetworkID === '' && !view.State.Running);
    const address = endpoint.IPAMConfig?.IPv4Address;
    return isSame && aliasOf(view, endpoint) === alias && address === addressIn(network, place);
  }

  async #disconnect({ Id }: DockerContainerView, dockerName: string): Promise<void> {
    const body = { Container: Id, Force: true };
    await unlessReply(this.#client.call('POST', `/networks/${dockerName}/disconnect`, { body }), 403, 404, 500);
  }
}

/** The alias that a member was given. Docker adds what it calls the container by itself: its id and its hostname. */
function aliasOf({ Id, Config }: DockerContainerView, { Aliases }: Attachment): string | null {
  return Aliases?.find((alias) => alias !== Id.slice(0, 12) && alias !== Config.Hostname) ?? null;
}

/** The address of a place: the first is the network's own, and the second would be the gateway's. */
function addressIn({ IPAM }: DockerNetworkView, place: number): string {
  const subnet = parseSubnet(IPAM.Config[0]?.Subnet ?? '');
  if (subnet === undefined) throw new EngineError('unavailable', 'The private network has no subnet.');
  return ipv4Text(subnet.first + 1 + place);
}
