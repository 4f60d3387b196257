/**
 * The actor of one hostname's certificate (kind `network/certificate`, key: hostname), awake on one node of the
 * cluster. A message only says "look": whether something is to be ordered is decided by the row in one transaction. An
 * order is held in its row besides, by an epoch: a process that is no member of the cluster has such an actor, too, and
 * an order that was paid for may end where it began although the actor is elsewhere by now.
 *
 *   idle --look--> ordering --issued, failed, not due, held elsewhere--> idle, asleep
 */
import { dispatch, type EntityKind } from '../../supervision/index.ts';
import type { CertificateDeps } from './certificate-deps.ts';
import { orderCertificate } from './certificate-order.ts';
import { CERTIFICATE, type WriteRight, writeRight } from './placed.ts';

type CertificateMessage = 'look' | 'over';

interface CertificateState {
  isOrdering: boolean;
  /** Something changed while an order was under way. */
  orderAgain: boolean;
  readonly right: WriteRight;
  /** The order under way, or the last. */
  ended: Promise<void>;
}

const SLEEP_AFTER_MS = 10_000;

/** The kind, for the tree of whoever orders. */
export function certificateKind(deps: CertificateDeps): EntityKind<CertificateMessage, CertificateState> {
  return {
    kind: CERTIFICATE.kind,
    sleepAfterMs: SLEEP_AFTER_MS,
    mailbox: { capacity: 16, policy: 'drop-newest' },
    activate: (hostname) => {
      const right = writeRight(deps, CERTIFICATE, hostname);
      return { isOrdering: false, orderAgain: false, right, ended: Promise.resolve() };
    },
    // Its end gives the order back: the next node need not wait for it to lapse.
    onSleep: ({ ended }) => ended,
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
      state.ended = orderCertificate(deps, authority, id, signal, state.right)
        // Storage is away: the next look tries again.
        .catch((error: unknown) => log.warn({ err: error, hostname: id }, 'an order could not be written down'))
        .finally(() => dispatch(self, 'over'));
      return state;
    },
  };
}
