/** How many connections the gateway lets in, in all and from one address. */
import type { Socket } from 'node:net';

/** How many connections are let in. */
export interface ConnectionLimits {
  readonly total: number;
  readonly perAddress: number;
}

export const CONNECTION_LIMITS: ConnectionLimits = { total: 20_000, perAddress: 1000 };

/** Counts connections by address over all listeners of the gateway. */
export class Admission {
  readonly #limits: ConnectionLimits;
  readonly #byAddress = new Map<string, number>();
  #total = 0;

  constructor(limits: Partial<ConnectionLimits> = {}) {
    this.#limits = { ...CONNECTION_LIMITS, ...limits };
  }

  /** Counts the connection until its socket closes; false when it is one too many. */
  admit(socket: Socket, address: string): boolean {
    const isAdmitted = this.enter(address);
    if (isAdmitted) socket.once('close', () => this.leave(address));
    return isAdmitted;
  }

  /** Counts a connection until `leave`; false when it is one too many. */
  enter(address: string): boolean {
    const count = this.#byAddress.get(address) ?? 0;
    if (this.#total >= this.#limits.total || count >= this.#limits.perAddress) return false;
    this.#total++;
    this.#byAddress.set(address, count + 1);
    return true;
  }

  /** One that entered is over. */
  leave(address: string): void {
    this.#total--;
    const left = (this.#byAddress.get(address) ?? 1) - 1;
    if (left === 0) this.#byAddress.delete(address);
    else this.#byAddress.set(address, left);
  }
}
