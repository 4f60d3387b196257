/** Finds due certificates: at once when a mapping changes, and every few seconds, since news can be lost. */
import { dueHostnames } from '../../storage/network/certificate-orders.ts';
import { purgeCertificates, tellUncertified } from '../../storage/network/certificates.ts';
import { dispatch, type EntityKind, type SystemRef } from '../../supervision/index.ts';
import { type EntitiesPart, localEntities, placedEntities } from '../service/parts.ts';
import { periodic } from '../service/periodic.ts';
import { startParts } from '../service/supervisor.ts';
import type { CertificateDeps } from './certificate-deps.ts';
import { orderCertificate } from './certificate-order.ts';
import { NO_AUTHORITY } from './certificate-rules.ts';
import { CERTIFICATE, ORDERS, type WriteRight, writeRight } from './placed.ts';

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

/**
 * The actor of one hostname's certificate (kind `network/certificate`, key: hostname), awake on one node of the
 * cluster. A message only says "look": whether something is to be ordered is decided by the row in one transaction. An
 * order is held in its row besides, by an epoch: a process that is no member of the cluster has such an actor, too, and
 * an order that was paid for may end where it began although the actor is elsewhere by now.
 *
 *   idle --look--> ordering --issued, failed, not due, held elsewhere--> idle, asleep
 */
function certificateKind(deps: CertificateDeps): EntityKind<CertificateMessage, CertificateState> {
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

const LOOK_MS = 5000;
const PURGE_EVERY_MS = 3600_000;
/** Orders of one node under way at once. */
const AT_ONCE = 20;

/** Starts what orders certificates under `system`; it ends with it. Rejects when it cannot start. */
export async function startCertificates(system: SystemRef, deps: CertificateDeps): Promise<void> {
  const { db, log, authority, news, placement, lookMs = LOOK_MS } = deps;
  const kind = certificateKind(deps);
  const certificates: EntitiesPart<'look'> =
    placement === undefined ? localEntities(kind) : placedEntities(placement, CERTIFICATE, kind);
  const order = async () => {
    const room = AT_ONCE - certificates.awake();
    const due = room > 0 ? await dueHostnames(db, room, placement?.held(ORDERS)) : [];
    for (const hostname of due) certificates.tell(hostname, 'look');
  };
  const common = { service: 'network', log } as const;
  const parts = {
    certificates,
    due: periodic({
      ...common,
      name: 'due-certificates',
      everyMs: lookMs,
      failure: 'what certificates are due could not be read: tried again',
      work: authority === undefined ? () => tellUncertified(db, NO_AUTHORITY) : order,
      wake: (now) => news.onNews(now),
    }),
    purge: periodic({
      ...common,
      name: 'old-certificates',
      everyMs: PURGE_EVERY_MS,
      failure: 'old certificates could not be purged',
      work: () => purgeCertificates(db),
    }),
  };
  await startParts(system, 'network-certificates', parts, (isUp) => placement?.setUp(ORDERS, isUp));
}
