/**
 * Who may begin, when many want to: handshakes are what strangers can make the event loop do most of for least. A
 * network that begins few begins at once, always. What a network begins beyond that, it begins at once only while the
 * loop has time and nobody else is there; else it waits in a lane, networks take turns, and so many begin a second as
 * leave the loop time for everybody else.
 */
import { performance } from 'node:perf_hooks';
import { type ClientNetwork, clientNetworkOf } from '../../../proto/client-network.ts';
import type { IsTrusted } from '../../wire/peer-address.ts';

/** How many begin. */
interface TurnLimits {
  /** Of one network that begin at once, a second, and so many more after a rest. Of one /48 of IPv6, twice as many. */
  readonly perSecond: number;
  readonly burst: number;
  /** Of the others in one turn of the loop; and while there is one client only. */
  readonly perTurn: number;
  readonly perTurnAlone: number;
  /** While the loop is busy for more of its time than this, fewer of the others begin; while for less, more. */
  readonly busyAt: number;
}

const TURN_LIMITS: TurnLimits = { perSecond: 20, burst: 40, perTurn: 1, perTurnAlone: 32, busyAt: 0.3 };

export interface TurnsOptions {
  readonly limits?: Partial<TurnLimits>;
  /** Whether there is more than one client: whoever is alone takes nothing from others. */
  readonly isShared: () => boolean;
  /** Told when somebody has to wait for the first time. */
  readonly onWait?: () => void;
  /** Addresses that stand for many clients: they begin at once. */
  readonly isTrusted?: IsTrusted | undefined;
  /** Monotonic ms, and ms of these in which the loop had nothing to do. */
  readonly clock?: { now(): number; idle(): number };
}

/** Somebody whose turn has not come. */
interface WaitingTurn {
  readonly begin: () => void;
  /** There will be no turn: called by `close`. */
  readonly end: () => void;
}

interface TurnPlace {
  readonly waiting: WaitingTurn;
  readonly of: ClientNetwork;
}

/** A site has so many times what a network has. */
const SITE_SHARE = 2;
/** How long the loop is looked at to say how busy it is, ms. */
const WINDOW_MS = 50;
const EVERY_MS = 5;
/** Of those that wait, all networks together, a second. */
const LEAST_RATE = 50;
const MOST_RATE = 2000;
const FASTER = 1.15;
const SLOWER = 0.7;
/** Networks remembered in one of two lots. */
const MAX_KNOWN = 20_000;

const CLOCK = { now: () => performance.now(), idle: () => performance.nodeTiming.idleTime };

/** Gives turns. Its timer runs while somebody waits. */
export class Turns {
  readonly #limits: TurnLimits;
  readonly #options: TurnsOptions;
  readonly #clock: { now(): number; idle(): number };
  /** By site, then by network; the next one first. */
  readonly #lanes = new Map<string, Map<string, Set<TurnPlace>>>();
  #waiting = 0;
  /** When a network will have all its allowance again, ms; of those seen lately, and of those seen before. */
  #spent = new Map<string, number>();
  #spentBefore = new Map<string, number>();
  #turnedAt = 0;
  #begun = 0;
  #isCounting = false;
  #seenAt: number;
  #seenIdle: number;
  #isBusy = false;
  #rate = LEAST_RATE * 5;
  #credit = 0;
  #pumpedAt = 0;
  #timer: NodeJS.Timeout | undefined;
  #immediate: NodeJS.Immediate | undefined;
  #isClosed = false;
  #hasWaited = false;

  constructor(options: TurnsOptions) {
    this.#options = options;
    this.#limits = { ...TURN_LIMITS, ...options.limits };
    this.#clock = options.clock ?? CLOCK;
    this.#seenAt = this.#clock.now();
    this.#seenIdle = this.#clock.idle();
  }

  /** How many wait. */
  get waiting(): number {
    return this.#waiting;
  }

  /** Has `waiting` begin, now or in its turn. What it returns gives the place up; undefined: there is none any more. */
  enter(address: string, waiting: WaitingTurn): (() => void) | undefined {
    if (this.#isClosed) {
      waiting.end();
      return undefined;
    }
    if (this.#options.isTrusted?.(address)) {
      waiting.begin();
      return undefined;
    }
    const of = clientNetworkOf(address);
    const now = this.#clock.now();
    const place = { waiting, of };
    if (this.#spend(of, now)) {
      // Its own allowance, so whoever of its own came first.
      const first = this.#firstOf(of);
      if (first === undefined) {
        waiting.begin();
        return undefined;
      }
      this.#add(place);
      this.#remove(first);
      first.waiting.begin();
    } else if (this.#waiting === 0 && this.#mayBegin(now)) {
      this.#count();
      waiting.begin();
      return undefined;
    } else {
      this.#add(place);
      this.#pumpLater(now);
      if (!this.#hasWaited) {
        this.#hasWaited = true;
        this.#options.onWait?.();
      }
    }
    return () => this.#remove(place);
  }

  /** Ends all that wait, and all that come. */
  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    clearImmediate(this.#immediate);
    this.#timer = undefined;
    this.#immediate = undefined;
    for (const networks of this.#lanes.values())
      for (const lane of networks.values())
        for (const place of lane) {
          this.#remove(place);
          place.waiting.end();
        }
  }

  // ----------------------------------------------------------------------------------------------------- the allowance

  /** Whether the network had something left, which is spent now. */
  #spend({ network, site }: ClientNetwork, now: number): boolean {
    const { perSecond, burst } = this.#limits;
    const [each, most] = [1000 / perSecond, (burst * 1000) / perSecond];
    if (now - this.#turnedAt > most || this.#spent.size >= MAX_KNOWN) {
      // What was not seen since the last time has all its allowance again.
      this.#spentBefore = this.#spent;
      this.#spent = new Map();
      this.#turnedAt = now;
    }
    const own = this.#spentOf(network, now) + each;
    if (site === network) {
      if (own - now > most) return false;
      this.#spent.set(network, own);
      return true;
    }
    const all = this.#spentOf(site, now) + each / SITE_SHARE;
    if (own - now > most || all - now > most) return false;
    this.#spent.set(network, own).set(site, all);
    return true;
  }

  #spentOf(key: string, now: number): number {
    return Math.max(now, this.#spent.get(key) ?? this.#spentBefore.get(key) ?? 0);
  }

  // --------------------------------------------------------------------------------------------------------- the lanes

  #firstOf({ network, site }: ClientNetwork): TurnPlace | undefined {
    const [first] = this.#lanes.get(site)?.get(network) ?? [];
    return first;
  }

  #add(place: TurnPlace): void {
    const { network, site } = place.of;
    let networks = this.#lanes.get(site);
    if (networks === undefined) {
      networks = new Map();
      this.#lanes.set(site, networks);
    }
    const lane = networks.get(network);
    if (lane === undefined) networks.set(network, new Set([place]));
    else lane.add(place);
    this.#waiting++;
  }

  #remove(place: TurnPlace): void {
    const { network, site } = place.of;
    const networks = this.#lanes.get(site);
    const lane = networks?.get(network);
    if (networks === undefined || lane?.delete(place) !== true) return;
    this.#waiting--;
    if (lane.size === 0) networks.delete(network);
    if (networks.size === 0) this.#lanes.delete(site);
  }

  /** The next one, who waits no more; its network and its site go to the end. */
  #next(): TurnPlace | undefined {
    const [bySite] = this.#lanes;
    if (bySite === undefined) return undefined;
    const [site, networks] = bySite;
    const [[network, lane] = ['', new Set<TurnPlace>()]] = networks;
    const [place] = lane;
    this.#lanes.delete(site);
    this.#lanes.set(site, networks);
    networks.delete(network);
    networks.set(network, lane);
    if (place !== undefined) this.#remove(place);
    return place;
  }

  // ---------------------------------------------------------------------------------------------------------- the loop

  /** Whether one beyond its allowance may begin though others could. */
  #mayBegin(now: number): boolean {
    const { perTurn, perTurnAlone } = this.#limits;
    if (!this.#options.isShared()) return this.#begun < perTurnAlone;
    this.#look(now);
    return !this.#isBusy && this.#begun < perTurn;
  }

  /** Counts it as one of this turn of the loop. */
  #count(): void {
    this.#begun++;
    if (this.#isCounting) return;
    this.#isCounting = true;
    setImmediate(() => {
      this.#begun = 0;
      this.#isCounting = false;
    });
  }

  /** Looks how busy the loop is, and has more or fewer begin. */
  #look(now: number): void {
    const passed = now - this.#seenAt;
    if (passed < WINDOW_MS) return;
    const idle = this.#clock.idle();
    this.#isBusy = 1 - (idle - this.#seenIdle) / passed > this.#limits.busyAt;
    this.#rate = Math.min(MOST_RATE, Math.max(LEAST_RATE, this.#rate * (this.#isBusy ? SLOWER : FASTER)));
    this.#seenAt = now;
    this.#seenIdle = idle;
  }

  #pumpLater(now: number): void {
    if (this.#timer !== undefined || this.#immediate !== undefined) return;
    if (this.#pumpedAt === 0) this.#pumpedAt = now;
    if (this.#options.isShared()) this.#timer = setTimeout(() => this.#pump(), EVERY_MS);
    else this.#immediate = setImmediate(() => this.#pump());
  }

  #pump(): void {
    this.#timer = undefined;
    this.#immediate = undefined;
    const now = this.#clock.now();
    const { perTurn, perTurnAlone } = this.#limits;
    this.#look(now);
    this.#credit = Math.min(perTurn, this.#credit + ((now - this.#pumpedAt) * this.#rate) / 1000);
    this.#pumpedAt = now;
    for (let left = this.#options.isShared() ? Math.floor(this.#credit) : perTurnAlone; left > 0; left--) {
      const place = this.#next();
      if (place === undefined) break;
      this.#credit--;
      place.waiting.begin();
    }
    this.#credit = Math.max(0, this.#credit);
    if (this.#waiting > 0) this.#pumpLater(now);
    else this.#pumpedAt = 0;
  }
}
