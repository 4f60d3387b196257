/** How much of the pool of logins one place takes at once. */
import { KeyedLimit } from '../../../lib/concurrency.ts';
import type { ClientNetwork } from '../../../proto/client-network.ts';
import { Refusal } from '../../../proto/errors.ts';
import { HASH_QUEUE } from './passwords.ts';

/** Calls of one network, and of one site, that are worked on or wait at once: nobody fills the pool alone. */
export const MAX_PER_NETWORK = HASH_QUEUE / 2;
const MAX_PER_SITE = HASH_QUEUE;

/** Bounds the calls of each network and of each site. There is one in a service: they share its pool. */
export class PlaceLimit {
  readonly #networks = new KeyedLimit(MAX_PER_NETWORK);
  readonly #sites = new KeyedLimit(MAX_PER_SITE);

  /** Runs `work` for somebody there. Rejects as it does, or at once with Refusal `overloaded`. */
  async run<T>({ network, site }: ClientNetwork, work: () => Promise<T>): Promise<T> {
    const leaveNetwork = this.#networks.enter(network);
    const leaveSite = leaveNetwork === undefined ? undefined : this.#sites.enter(site);
    try {
      if (leaveSite === undefined) throw new Refusal('overloaded');
      return await work();
    } finally {
      leaveSite?.();
      leaveNetwork?.();
    }
  }
}
