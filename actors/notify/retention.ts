/** Removes notifications that are old, and what was sent of them, every hour. */
import { purgeMailed } from '../../storage/notify/mail-tries.ts';
import { purgeNotifications } from '../../storage/notify/notifications.ts';
import { purgeDeliveries } from '../../storage/notify/webhook-deliveries.ts';
import { periodic } from '../service/periodic.ts';
import type { NotifyDeps } from './deps.ts';

const EVERY_MS = 3_600_000;
/** How long notifications are kept, read or not: longer than their events in the stream, so that repeats are known. */
const KEPT_DAYS = 90;
/** How long what was sent is known, so that a repeated event is not sent again: longer than it is tried. */
const SENT_DAYS = 3;
/** Rows of one statement. */
const STEP = 5000;

/** The part that does it. */
export function retention({ db, placement, log }: NotifyDeps) {
  return periodic({
    service: 'notify',
    name: 'retention',
    everyMs: EVERY_MS,
    placement,
    log,
    failure: 'old notifications could not be removed',
    work: async (signal) => {
      while (!signal.aborted && (await purgeNotifications(db, KEPT_DAYS, STEP)) === STEP);
      while (!signal.aborted && (await purgeDeliveries(db, SENT_DAYS, STEP)) === STEP);
      while (!signal.aborted && (await purgeMailed(db, SENT_DAYS, STEP)) === STEP);
    },
  });
}
