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
    if (this.#total >= this.#limits.total || !this.admitBehind(socket, address)) return false;
    this.#total++;
    socket.once('close', () => this.#total--);
    return true;
  }

  /** Counts a connection that was admitted for the client behind its peer, too; false when it is one too many of that client. */
  admitBehind(socket: Socket, address: string): boolean {
    if (this.#isTrusted(address)) return true;
    const count = this.#byAddress.get(address) ?? 0;
    if (count >= this.#limits.perAddress) return false;
    this.#byAddress.set(address, count + 1);
    socket.once('close', () => {
      const left = (this.#byAddress.get(address) ?? 1) - 1;
      if (left === 0) this.#byAddress.delete(address);
      else this.#byAddress.set(address, left);
    });
    return true;
  }
}
