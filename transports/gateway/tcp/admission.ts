/** How many connections the gateway lets in, in all and from one network. */
import type { Socket } from 'node:net';
import type { IsTrusted } from '../../wire/peer-address.ts';
import { type Holder, type Place, Places } from './places.ts';

/** How many connections are let in. */
export interface ConnectionLimits {
  readonly total: number;
  /** Of one address; of IPv6, of one /64. */
  readonly perAddress: number;
  /** Of one /48 of IPv6. Default: four times as many as of one address. */
  readonly perSite?: number;
}

const CONNECTION_LIMITS: ConnectionLimits = { total: 20_000, perAddress: 1000 };

/** Counts connections by network over all listeners. When it is full, newcomers get places of whoever has most. */
export class Admission {
  readonly #places: Places;
  readonly #isTrusted: IsTrusted;
  readonly #held = new WeakMap<Socket, Place | undefined>();

  /** Trusted addresses are those of proxies: each stands for many clients and has no limit of its own. */
  constructor(limits: Partial<ConnectionLimits> = {}, isTrusted: IsTrusted = () => false) {
    const { total, perAddress, perSite = 4 * perAddress } = { ...CONNECTION_LIMITS, ...limits };
    this.#places = new Places({ total, perNetwork: perAddress, perSite });
    this.#isTrusted = isTrusted;
  }

  /** Whether there is more than one client. */
  get isShared(): boolean {
    return this.#places.isShared;
  }

  /** Counts the connection until its socket closes; false when it is one too many. */
  admit(socket: Socket, address: string): boolean {
    return this.#hold(socket, this.enter(address, resetting(socket)));
  }

  /** A place until `leave`; undefined when it is one too many. `holder` loses it when others have more need. */
  enter(address: string, holder: Holder): Place | undefined {
    return this.#isTrusted(address) ? this.#places.takeUnnamed(holder) : this.#places.take(address, holder);
  }

  /** One that entered is over. */
  leave(place: Place): void {
    this.#places.leave(place);
  }

  /** A connection admitted for its peer, a proxy, is its client's from now on; false: one too many of that client. */
  admitBehind(socket: Socket, address: string): boolean {
    if (this.#isTrusted(address)) return true;
    this.#giveBack(socket);
    return this.#hold(socket, this.#places.take(address, resetting(socket)));
  }

  #hold(socket: Socket, place: Place | undefined): boolean {
    if (place === undefined) return false;
    if (!this.#held.has(socket)) socket.once('close', () => this.#giveBack(socket));
    this.#held.set(socket, place);
    return true;
  }

  #giveBack(socket: Socket): void {
    const place = this.#held.get(socket);
    if (place === undefined) return;
    this.#held.set(socket, undefined);
    this.#places.leave(place);
  }
}

function resetting(socket: Socket): Holder {
  return { evict: () => void socket.resetAndDestroy() };
}
