import { z } from 'zod';
import { EngineError, type PrivateNetwork } from '../../../proto/ports/engine.ts';
import type { ClusterCache, NetworkObjects } from './cache.ts';
import { deleteIfThere, type KubeClient } from './client.ts';
import { isReply, KubeReplyError } from './errors.ts';
import { type Found, listAll } from './find.ts';
import type { ClusterSettings } from './manifests.ts';
import type { KubeNaming } from './naming.ts';
import {
  type AliasService,
  aliasServices,
  begun,
  checkNetwork,
  isAs,
  isOfKind,
  isSettled,
  memberPolicy,
  membersIn,
  selectorsOf,
  settled,
  unsettled,
} from './network-objects.ts';
import { objectView, type ServiceView, serviceView } from './views.ts';

const anything = z.unknown();
/** How often the names of a user's networks are looked at, until nothing is to be changed. */
const MOST_LOOKS = 8;

/** What is to be changed of the names of a user's networks. */
interface NameChanges {
  readonly made: readonly AliasService[];
  readonly removed: readonly ServiceView[];
}

/**
 * Private networks of containers, of the cluster's own objects: a label of the namespaces of members, a policy that
 * lets them reach each other, and services as names. A name is a service in the namespace of the container that has it;
 * in the namespace of each other member a service of the same name leads there, since that is where its pod asks first.
 * Nothing has to be done when a pod starts, stops or moves: the cluster answers with where it runs.
 */
export class KubePrivateNetworks {
  readonly #client: KubeClient;
  readonly #naming: KubeNaming;
  readonly #clusterDomain: string;

  readonly #cache: () => ClusterCache | undefined;

  /** `cache`: what a watch knows of the cluster, while one stands. */
  constructor(
    client: KubeClient,
    naming: KubeNaming,
    { clusterDomain = 'cluster.local' }: ClusterSettings,
    cache: () => ClusterCache | undefined,
  ) {
    this.#cache = cache;
    this.#client = client;
    this.#naming = naming;
    this.#clusterDomain = clusterDomain;
  }

  /**
   * As `Engine.join`. The namespace says at first that a change is under way, and at last that it is done: whoever
   * comes after a crash in between is told of a membership that nobody wants, and joins again.
   */
  async join(found: Found, wanted: PrivateNetwork | undefined): Promise<void> {
    if (wanted !== undefined) checkNetwork(wanted);
    else if (found.network === null) return;
    const isSame =
      wanted?.name === found.network?.name &&
      wanted?.alias === found.network?.alias &&
      wanted?.place === found.network?.place;
    const isDone = isSame && isSettled(found.network);
    if (!isDone) await this.#mark(found, begun(wanted));
    const policy = memberPolicy(this.#naming, found, wanted);
    await this.#client.apply(policy.path, policy.body, anything);
    const known = this.#cache()?.networks();
    // Each start joins again: while a watch knows that nothing is missing, it asks for no list.
    if (isDone && known !== undefined && isSettled(this.seen(found, known))) return;
    await this.#settleNames(found.userId);
    if (!isDone) await this.#mark(found, settled(wanted));
  }

  /**
   * The private network of a container, told as one that is under way when names are missing that it should find the
   * others by. Without a watch nobody mends that, and the names are not looked at.
   */
  async look(found: Found): Promise<PrivateNetwork | null> {
    const seen = this.seen(found, this.#cache()?.networks());
    if (seen === null || isSettled(seen) || !isSettled(found.network)) return seen;
    // What a watch does not know yet, the API server may.
    const { members, names } = selectorsOf(this.#naming, found.userId);
    const namesOf = `/api/v1/namespaces/${found.namespace}/services`;
    const services = await listAll(this.#client, namesOf, serviceView, { labelSelector: names });
    const namespaces = await listAll(this.#client, '/api/v1/namespaces', objectView, { labelSelector: members });
    return this.seen(found, { members: () => namespaces, names: () => services });
  }

  /** The same, by what is known. */
  seen({ id, userId, namespace, network }: Found, known: NetworkObjects | undefined): PrivateNetwork | null {
    if (network === null || known === undefined || !isSettled(network)) return network;
    const members = membersIn(this.#naming, known.members(userId));
    const self = members.find((member) => member.id === id);
    const wanted = self === undefined ? [] : aliasServices(this.#naming, self, members, this.#clusterDomain);
    const names = known.names(namespace);
    const fits = names.length === wanted.length && wanted.every((one) => names.some((is) => isAs(is, one)));
    return self !== undefined && fits ? network : unsettled(network);
  }

  /** Has the alias of a container lead to the pod that its namespace names by now. */
  async lead({ userId, network }: Pick<Found, 'userId' | 'network'>): Promise<void> {
    if (network !== null && network.alias !== null) await this.#settleNames(userId);
  }

  /** Takes a container out of its network before it is removed: the others do not find it from then on. */
  async leave(found: Found): Promise<void> {
    if (found.network === null) return;
    try {
      await this.join(found, undefined);
    } catch (error) {
      // It is going already.
      if (!isGone(error)) throw error;
      await this.#settleNames(found.userId);
    }
  }

  /**
   * Brings the names in the namespaces of all members of a user's networks to what they should be. Others may do so at
   * the same time, for members that come and go: what was written is looked at again, until nothing is to be changed.
   */
  async #settleNames(userId: string): Promise<void> {
    for (let looks = 1; ; looks += 1) {
      const { made, removed } = await this.#changes(userId);
      if (made.length === 0 && removed.length === 0) return;
      if (looks === MOST_LOOKS)
        throw new EngineError('unavailable', 'The names in the private network are being changed by others.');
      await Promise.all(removed.map((service) => this.#remove(service)));
      await Promise.all(
        made.map(({ path, body }) =>
          this.#client.apply(path, body, anything).catch((error: unknown) => {
            // That member is being removed: it is none at the next look.
            if (!isGone(error)) throw error;
          }),
        ),
      );
    }
  }

  /** Services first: whoever has written one was a member before, and so is seen as one. */
  async #changes(userId: string): Promise<NameChanges> {
    const selectors = selectorsOf(this.#naming, userId);
    const present = await listAll(this.#client, '/api/v1/services', serviceView, { labelSelector: selectors.names });
    const namespaces = await listAll(this.#client, '/api/v1/namespaces', objectView, {
      labelSelector: selectors.members,
    });
    const members = membersIn(this.#naming, namespaces);
    const wanted = members.flatMap((one) => aliasServices(this.#naming, one, members, this.#clusterDomain));
    const at = new Map(present.map((service) => [keyOf(service.metadata), service]));
    const kept = new Map(wanted.map((service) => [keyOf(service), service]));
    const removed = present.filter((service) => {
      const should = kept.get(keyOf(service.metadata));
      return service.metadata.deletionTimestamp == null && (should === undefined || !isOfKind(service, should));
    });
    const made = wanted.filter((service) => {
      const is = at.get(keyOf(service));
      return is === undefined || !isAs(is, service);
    });
    return { made, removed };
  }

  /** Only of what was seen: it may be another member's name by now. */
  async #remove({ metadata: { namespace, name, uid, resourceVersion } }: ServiceView): Promise<void> {
    await deleteIfThere(this.#client, `/api/v1/namespaces/${namespace}/services/${name}`, {
      preconditions: { uid, resourceVersion },
    });
  }

  async #mark({ namespace }: Found, body: object): Promise<void> {
    const contentType = 'application/merge-patch+json';
    await this.#client.call('PATCH', `/api/v1/namespaces/${namespace}`, { body, contentType });
  }
}

function keyOf({ namespace, name }: { readonly namespace: string; readonly name: string }): string {
  return `${namespace}/${name}`;
}

function isGone(error: unknown): boolean {
  return isReply(error, 404) || (error instanceof KubeReplyError && error.isTerminating);
}
