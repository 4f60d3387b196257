/** How many connections the gateway lets in, in all and from one address. */
import type { Socket } from 'node:net';
import type { IsTrusted } from './trusted.ts';

/** How many connections are let in. */
export interface ConnectionLimits {
  readonly total: number;
  readonly perAddress: number;
}

export const CONNECTION_LIMITS: ConnectionLimits = { total: 20_000, perAddress: 1000 };

/** Counts connections by address over all listeners of the gateway. */
export class Admission {
  readonly #limits: ConnectionLimits;
  readonly #isTrusted: IsTrusted;
  readonly #byAddress = new Map<string, number>();
  #total = 0;

  /** Trusted addresses are those of proxies: each stands for many clients and has no limit of its own. */
  constructor(limits: Partial<ConnectionLimits> = {}, isTrusted: IsTrusted = () => false) {
    this.#limits = { ...CONNECTION_LIMITS, ...limits };
    this.#isTrusted = isTrusted;
  }

  /** Counts the connection until its socket closes; false when it is one too many. */
  admit(socket: Socket, address: string): boolean {
    const isAdmitted = this.enter(address);
    if (isAdmitted) socket.once('close', () => this.leave(address));
    return isAdmitted;
  }

  /** Counts a connection until `leave`; false when it is one too many. */
  enter(address: string): boolean {
    if (this.#total >= this.#limits.total || !this.#count(address)) return false;
    this.#total++;
    return true;
  }

  /** One that entered is over. */
  leave(address: string): void {
    this.#total--;
    this.#uncount(address);
  }

  /** Counts a connection that was admitted for the client behind its peer, too; false when it is one too many of that client. */
  admitBehind(socket: Socket, address: string): boolean {
    const isAdmitted = this.#count(address);
    if (isAdmitted) socket.once('close', () => this.#uncount(address));
    return isAdmitted;
  }

  #count(address: string): boolean {
    if (this.#isTrusted(address)) return true;
    const count = this.#byAddress.get(address) ?? 0;
    if (count >= this.#limits.perAddress) return false;
    this.#byAddress.set(address, count + 1);
    return true;
  }

  #uncount(address: string): void {
    if (this.#isTrusted(address)) return;
    const left = (this.#byAddress.get(address) ?? 1) - 1;
    if (left === 0) this.#byAddress.delete(address);
    else this.#byAddress.set(address, left);
  }
}
