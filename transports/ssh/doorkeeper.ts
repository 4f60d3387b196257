/** Who may try to log in: bounds on connections that have not proven a key yet, and on what one address may get wrong. */

/** Bounds of the SSH server before login. */
export interface DoorLimits {
  /** Connections that have not logged in, in all; one more ends the oldest of them. */
  readonly waiting: number;
  /** The same of one address; one more is refused. */
  readonly waitingPerAddress: number;
  /** Connections that have logged in, of one address. */
  readonly perAddress: number;
  /** The same in all. */
  readonly total: number;
  /** What an address may get wrong at once: a key that opens nothing, a password, bytes that are not SSH. */
  readonly mistakes: number;
  /** One of them is forgotten after so long, ms. */
  readonly forgiveMs: number;
}

export const DOOR_LIMITS: DoorLimits = {
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
/** The slowest answer to a mistake, ms. */
const MAX_DELAY_MS = 2000;

/** A connection at the door. */
export interface Visitor {
  /** It has logged in: false when there are too many such, and it must go. */
  enter(): boolean;
  /** It got something wrong; how long the answer should wait, ms. */
  mistake(): number;
  /** It is over. Idempotent. */
  leave(): void;
}

interface Place {
  readonly key: string;
  readonly end: () => void;
  inside: boolean;
}

/** Keeps count. One for all SSH listeners of the process. */
export class Doorkeeper {
  readonly #limits: DoorLimits;
  readonly #now: () => number;
  /** In the order of arrival. */
  readonly #waiting = new Set<Place>();
  readonly #waitingBy = new Map<string, number>();
  readonly #insideBy = new Map<string, number>();
  #inside = 0;
  /** When an address will have been forgiven everything. */
  readonly #forgivenAt = new Map<string, number>();

  constructor(limits: Partial<DoorLimits> = {}, now: () => number = () => performance.now()) {
    this.#limits = { ...DOOR_LIMITS, ...limits };
    this.#now = now;
  }

  /** Lets a connection try, or says why not. `end` ends it when others need its place. */
  admit(address: string, end: () => void): Visitor | 'punished' | 'crowded' {
    const key = networkOf(address);
    if (this.#mistakes(key) >= this.#limits.mistakes) return 'punished';
    if ((this.#waitingBy.get(key) ?? 0) >= this.#limits.waitingPerAddress) return 'crowded';
    const place: Place = { key, end, inside: false };
    this.#waiting.add(place);
    add(this.#waitingBy, key, 1);
    if (this.#waiting.size > this.#limits.waiting) this.#evictOldest();
    let isOver = false;
    return {
      enter: () => {
        if (isOver || place.inside) return place.inside;
        const { total, perAddress } = this.#limits;
        if (this.#inside >= total || (this.#insideBy.get(key) ?? 0) >= perAddress) return false;
        this.#stopWaiting(place);
        place.inside = true;
        this.#inside++;
        add(this.#insideBy, key, 1);
        return true;
      },
      mistake: () => this.#note(key),
      leave: () => {
        if (isOver) return;
        isOver = true;
        this.#stopWaiting(place);
        if (!place.inside) return;
        this.#inside--;
        add(this.#insideBy, key, -1);
      },
    };
  }

  #evictOldest(): void {
    const [oldest] = this.#waiting;
    if (oldest === undefined) return;
    this.#stopWaiting(oldest);
    oldest.end();
  }

  #stopWaiting(place: Place): void {
    if (this.#waiting.delete(place)) add(this.#waitingBy, place.key, -1);
  }

  #mistakes(key: string): number {
    return Math.max(0, ((this.#forgivenAt.get(key) ?? 0) - this.#now()) / this.#limits.forgiveMs);
  }

  #note(key: string): number {
    const { mistakes, forgiveMs } = this.#limits;
    const made = this.#mistakes(key) + 1;
    // Whoever is shut out stays out for a while, not for the moment until one is forgiven.
    const count = made >= mistakes ? mistakes * (1 + SHUT_OUT) : made;
    // Moves to the end: the order is that of the last mistake.
    this.#forgivenAt.delete(key);
    this.#forgivenAt.set(key, this.#now() + count * forgiveMs);
    if (this.#forgivenAt.size > MAX_ADDRESSES) this.#forgetOldest();
    // The first few cost nothing: an agent offers all its keys.
    return Math.min(MAX_DELAY_MS, Math.max(0, count - 10) * 100);
  }

  #forgetOldest(): void {
    for (const key of this.#forgivenAt.keys()) {
      this.#forgivenAt.delete(key);
      return;
    }
  }
}

/** What counts as one address: of IPv6 the network, since whoever has one address has them all. */
export function networkOf(address: string): string {
  if (!address.includes(':')) return address;
  const [head = '', tail] = address.split('%', 1)[0]?.split('::') ?? [];
  const first = head === '' ? [] : head.split(':');
  const last = tail === undefined || tail === '' ? [] : tail.split(':');
  const zeros =
    tail === undefined ? [] : Array.from({ length: Math.max(0, 8 - first.length - last.length) }, () => '0');
  return `${[...first, ...zeros, ...last]
    .slice(0, 4)
    .map((group) => Number.parseInt(group, 16).toString(16))
    .join(':')}::/64`;
}

function add(counts: Map<string, number>, key: string, by: number): void {
  const count = (counts.get(key) ?? 0) + by;
  if (count > 0) counts.set(key, count);
  else counts.delete(key);
}
