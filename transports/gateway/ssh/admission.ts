/** Who may try to log in: bounds on connections without a proven key, and on what one address gets wrong. */

import { LRUCache } from 'lru-cache';
import { clientNetworkOf } from '../../../proto/client-network.ts';

/** Bounds of the SSH server before login. */
export interface SshAdmissionLimits {
  /** Connections that have not logged in, in all; one more ends the oldest of the site that has most of them. */
  readonly waiting: number;
  /** The same of one address (of IPv6: one /64, and of one /48 four times as many); one more is refused. */
  readonly waitingPerAddress: number;
  /** Connections that have logged in, of one address, counted likewise. */
  readonly perAddress: number;
  /** The same in all. */
  readonly total: number;
  /** What an address may get wrong at once: a key that opens nothing, a password, bytes that are not SSH. */
  readonly mistakes: number;
  /** One of them is forgotten after so long, ms. */
  readonly forgiveMs: number;
}

const SSH_ADMISSION_LIMITS: SshAdmissionLimits = {
  waiting: 512,
  waitingPerAddress: 64,
  perAddress: 500,
  total: 5000,
  mistakes: 100,
  forgiveMs: 3000,
};

/** Addresses remembered; past it those that are about to be forgiven go first. */
const MAX_ADDRESSES = 100_000;
/** How much longer than it takes to forgive one, as a share of all that may be wrong, an address is shut out. */
const SHUT_OUT = 0.2;
/** What one site, an IPv6 /48, has of each bound of an address. */
const SITE_SHARE = 4;
/** The slowest answer to a mistake, ms. */
const MAX_DELAY_MS = 2000;

/** A connection that asks to be admitted. */
export interface Visitor {
  /** It has logged in: false when there are too many such, and it must go. */
  enter(): boolean;
  /** It got something wrong; how long the answer should wait, ms. */
  mistake(): number;
  /** It is over. Idempotent. */
  leave(): void;
}

interface AdmittedPlace {
  readonly key: string;
  readonly site: string;
  readonly end: () => void;
  inside: boolean;
}

/** Keeps count. One for all SSH listeners of the process. */
export class SshAdmission {
  readonly #limits: SshAdmissionLimits;
  readonly #now: () => number;
  /** In the order of arrival. */
  readonly #waiting = new Set<AdmittedPlace>();
  readonly #waitingBy = new Map<string, number>();
  readonly #insideBy = new Map<string, number>();
  #inside = 0;
  /** When an address will have been forgiven everything. */
  readonly #forgivenAt = new LRUCache<string, number>({ max: MAX_ADDRESSES });

  constructor(limits: Partial<SshAdmissionLimits> = {}, now: () => number = () => performance.now()) {
    this.#limits = { ...SSH_ADMISSION_LIMITS, ...limits };
    this.#now = now;
  }

  /** Lets a connection try, or says why not. `end` ends it when others need its place. */
  admit(address: string, end: () => void): Visitor | 'punished' | 'crowded' {
    const { network: key, site } = clientNetworkOf(address);
    const { mistakes, waiting, waitingPerAddress } = this.#limits;
    if (this.#mistakes(key) >= mistakes) return 'punished';
    if (site !== key && this.#mistakes(site) >= SITE_SHARE * mistakes) return 'punished';
    if (!hasRoom(this.#waitingBy, key, site, waitingPerAddress)) return 'crowded';
    const place: AdmittedPlace = { key, site, end, inside: false };
    if (this.#waiting.size >= waiting) this.#evict();
    this.#waiting.add(place);
    addBoth(this.#waitingBy, place, 1);
    let isOver = false;
    return {
      enter: () => {
        if (isOver || place.inside) return place.inside;
        const { total, perAddress } = this.#limits;
        if (this.#inside >= total || !hasRoom(this.#insideBy, key, site, perAddress)) return false;
        this.#stopWaiting(place);
        place.inside = true;
        this.#inside++;
        addBoth(this.#insideBy, place, 1);
        return true;
      },
      mistake: () => {
        if (site !== key) this.#note(site, SITE_SHARE);
        return this.#note(key, 1);
      },
      leave: () => {
        if (isOver) return;
        isOver = true;
        this.#stopWaiting(place);
        if (!place.inside) return;
        this.#inside--;
        addBoth(this.#insideBy, place, -1);
      },
    };
  }

  /** Ends the oldest of the site that has most: whoever comes alone is not pushed out by those who come in crowds. */
  #evict(): void {
    let chosen: AdmittedPlace | undefined;
    for (const place of this.#waiting) if (this.#weightOf(place) > this.#weightOf(chosen)) chosen = place;
    if (chosen === undefined) return;
    this.#stopWaiting(chosen);
    chosen.end();
  }

  #weightOf(place: AdmittedPlace | undefined): number {
    return place === undefined ? 0 : (this.#waitingBy.get(place.site) ?? 0);
  }

  #stopWaiting(place: AdmittedPlace): void {
    if (this.#waiting.delete(place)) addBoth(this.#waitingBy, place, -1);
  }

  #mistakes(key: string): number {
    return Math.max(0, ((this.#forgivenAt.peek(key) ?? 0) - this.#now()) / this.#limits.forgiveMs);
  }

  /** Counts a mistake of a network, or of a site, which has `share` times as many. */
  #note(key: string, share: number): number {
    const { forgiveMs } = this.#limits;
    const mistakes = share * this.#limits.mistakes;
    const made = this.#mistakes(key) + 1;
    // Whoever is shut out stays out for a while, not for the moment until one is forgiven.
    const count = made >= mistakes ? mistakes * (1 + SHUT_OUT) : made;
    this.#forgivenAt.set(key, this.#now() + count * forgiveMs);
    // The first few cost nothing: an agent offers all its keys.
    return Math.min(MAX_DELAY_MS, Math.max(0, count - 10) * 100);
  }
}

/** Whether a network and its site have fewer than they may. */
function hasRoom(counts: ReadonlyMap<string, number>, network: string, site: string, most: number): boolean {
  if ((counts.get(network) ?? 0) >= most) return false;
  return site === network || (counts.get(site) ?? 0) < SITE_SHARE * most;
}

function addBoth(counts: Map<string, number>, { key, site }: AdmittedPlace, by: number): void {
  add(counts, key, by);
  if (site !== key) add(counts, site, by);
}

function add(counts: Map<string, number>, key: string, by: number): void {
  const count = (counts.get(key) ?? 0) + by;
  if (count > 0) counts.set(key, count);
  else counts.delete(key);
}
