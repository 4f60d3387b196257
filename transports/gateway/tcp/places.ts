/**
 * Places that many clients share: connections to the gateway, requests at an origin. Clients are counted by network,
 * and those of IPv6 by site as well (proto/client-network.ts). When no place is free, a client that has fewer than
 * others gets one of theirs: the oldest of whoever has most. So strangers who take all they can get leave to each
 * newcomer as much as to themselves. A part is kept for each family of addresses.
 */
import { type ClientNetwork, clientNetworkOf } from '../../../proto/client-network.ts';

/** How many places there are. */
export interface PlaceLimits {
  readonly total: number;
  /** Most of one network: an IPv4 address, or an IPv6 /64. */
  readonly perNetwork: number;
  /** Most of one site: an IPv6 /48. */
  readonly perSite: number;
}

/** Who has a place. */
export interface Holder {
  /** Its place goes to somebody who has fewer: what it was for has to end. `leave` has no effect afterwards. */
  evict(): void;
}

/** One place, taken. */
export interface Place {
  /** Whom to tell that it is wanted; may be replaced. */
  holder: Holder;
  readonly network: string;
  /** Undefined: nobody's in particular, and never taken away. */
  readonly site: Site | undefined;
}

interface Site {
  readonly key: string;
  readonly family: Family;
  /** The oldest first. */
  readonly places: Set<Place>;
}

interface Family {
  taken: number;
  /** Those with the most places. */
  readonly heavy: Set<Site>;
}

/** One part in so many is kept from either family of addresses, for the other. */
const RESERVE = 10;
/** Networks remembered by address. */
const MAX_KNOWN = 4096;

/** Counts places. */
export class Places {
  readonly #limits: PlaceLimits;
  readonly #mostOfFamily: number;
  /** A site with so many places or more may lose one. */
  readonly #heavyAt: number;
  readonly #sites = new Map<string, Site>();
  /** Places by network where a site has several. */
  readonly #networks = new Map<string, number>();
  readonly #four: Family = { taken: 0, heavy: new Set() };
  readonly #six: Family = { taken: 0, heavy: new Set() };
  readonly #known = new Map<string, ClientNetwork>();
  #unnamed = 0;

  constructor(limits: PlaceLimits) {
    this.#limits = limits;
    this.#mostOfFamily = limits.total - Math.floor(limits.total / RESERVE);
    // Few enough are looked at when all places are taken.
    this.#heavyAt = Math.max(2, Math.floor(limits.total / 2000));
  }

  /** Places that are taken. */
  get taken(): number {
    return this.#four.taken + this.#six.taken + this.#unnamed;
  }

  /** Whether more than one has places, or somebody who stands for many. */
  get isShared(): boolean {
    return this.#sites.size > 1 || this.#unnamed > 0;
  }

  /** Whether the network of `address` has as many as it may. */
  isSpent(address: string): boolean {
    const { network, site } = this.#keysOf(address);
    const places = this.#sites.get(site)?.places.size ?? 0;
    if (network === site) return places >= this.#limits.perNetwork;
    return places >= this.#limits.perSite || (this.#networks.get(network) ?? 0) >= this.#limits.perNetwork;
  }

  /** A place for `address` until `leave`; undefined when there is none for it. Others may lose theirs. */
  take(address: string, holder: Holder): Place | undefined {
    if (this.isSpent(address)) return undefined;
    const { network, site: key } = this.#keysOf(address);
    const family = network.includes(':') ? this.#six : this.#four;
    const mine = this.#sites.get(key)?.places.size ?? 0;
    if (family.taken >= this.#mostOfFamily) {
      if (!this.#evict(mine, [family])) return undefined;
    } else if (this.taken >= this.#limits.total && !this.#evict(mine, [this.#four, this.#six])) return undefined;
    let site = this.#sites.get(key);
    if (site === undefined) {
      site = { key, family, places: new Set() };
      this.#sites.set(key, site);
    }
    const place: Place = { holder, network, site };
    site.places.add(place);
    family.taken++;
    if (site.places.size === this.#heavyAt) family.heavy.add(site);
    if (network !== key) this.#networks.set(network, (this.#networks.get(network) ?? 0) + 1);
    return place;
  }

  /** A place for somebody who stands for many, and has no limit but that of all. */
  takeUnnamed(holder: Holder): Place | undefined {
    if (this.taken >= this.#limits.total) return undefined;
    this.#unnamed++;
    return { holder, network: '', site: undefined };
  }

  /** Gives it back. At most once for those without a site. */
  leave(place: Place): void {
    const { network, site } = place;
    if (site === undefined) {
      this.#unnamed--;
      return;
    }
    if (!site.places.delete(place)) return;
    site.family.taken--;
    if (site.places.size === this.#heavyAt - 1) site.family.heavy.delete(site);
    if (site.places.size === 0) this.#sites.delete(site.key);
    if (network === site.key) return;
    const left = (this.#networks.get(network) ?? 1) - 1;
    if (left === 0) this.#networks.delete(network);
    else this.#networks.set(network, left);
  }

  /** Takes a place from whoever has most, if that is more than one who has `mine` would have with it. */
  #evict(mine: number, families: readonly Family[]): boolean {
    let most: Site | undefined;
    for (const { heavy } of families)
      for (const site of heavy) if (site.places.size > (most?.places.size ?? mine + 1)) most = site;
    const [oldest] = most?.places ?? [];
    if (oldest === undefined) return false;
    this.leave(oldest);
    oldest.holder.evict();
    return true;
  }

  #keysOf(address: string): ClientNetwork {
    let keys = this.#known.get(address);
    if (keys === undefined) {
      keys = clientNetworkOf(address);
      if (this.#known.size >= MAX_KNOWN) this.#known.clear();
      this.#known.set(address, keys);
    }
    return keys;
  }
}
