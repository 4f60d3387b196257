/**
 * The actor of one hostname's certificate (kind `network/certificate`, key: hostname). A message only says "look":
 * whether something is to be ordered, and by whom, is decided by the row in one transaction, since every node has such
 * an actor.
 *
 *   idle --look--> ordering --issued, failed, not due, held elsewhere--> idle, asleep
 */
import { dispatch, type EntityKind } from '../../supervision/index.ts';
import type { CertificateDeps } from './certificate-deps.ts';
import { orderCertificate } from './certificate-order.ts';

type CertificateMessage = 'look' | 'over';

interface CertificateState {
  isOrdering: boolean;
  /** Something changed while an order was under way. */
  orderAgain: boolean;
}

const SLEEP_AFTER_MS = 10_000;

/** The kind, for the tree of whoever orders. */
export function certificateKind(deps: CertificateDeps): EntityKind<CertificateMessage, CertificateState> {
  return {
    kind: 'network/certificate',
    sleepAfterMs: SLEEP_AFTER_MS,
    mailbox: { capacity: 16, policy: 'drop-newest' },
    activate: () => ({ isOrdering: false, orderAgain: false }),
    handle: (state, message, ctx) => {
      const { authority, log } = deps;
      if (message === 'over') state.isOrdering = false;
      else if (state.isOrdering) state.orderAgain = true;
      if (authority === undefined || state.isOrdering || (message === 'over' && !state.orderAgain)) {
        ctx.keepAwake(state.isOrdering);
        if (message === 'over') ctx.sleep();
        return state;
      }
      state.orderAgain = false;
      state.isOrdering = true;
      ctx.keepAwake(true);
      const { id, self, signal } = ctx;
      orderCertificate(deps, authority, id, signal)
        // Storage is away: the next look tries again.
        .catch((error: unknown) => log.warn({ err: error, hostname: id }, 'an order could not be written down'))
        .finally(() => dispatch(self, 'over'));
      return state;
    },
  };
}
