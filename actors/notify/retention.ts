/** Removes notifications that are old, every hour. */
import { purgeNotifications } from '../../storage/notify/notifications.ts';
import { type AnyRef, spawn } from '../../supervision/index.ts';
import type { NotifyDeps } from './deps.ts';

const EVERY_MS = 3_600_000;
/**
 * How long notifications are kept, read or not: far longer than the stream keeps their events, so that a repeated one
 * is still known.
 */
const KEPT_DAYS = 90;
/** Rows of one statement. */
const STEP = 5000;

/** The actor that does it. A database that is away is left for the next time. */
export function startRetention(parent: AnyRef, { db, log }: NotifyDeps): AnyRef {
  return spawn<null, 'purge'>(
    parent,
    async (_state, _message, ctx) => {
      while (!ctx.signal.aborted && (await purgeNotifications(db, KEPT_DAYS, STEP)) === STEP);
      return null;
    },
    {
      name: 'retention',
      kind: 'notify/retention',
      initialStateFunc: (ctx) => {
        ctx.every(EVERY_MS, 'purge');
        return null;
      },
      onCrash: (_message, error, ctx) => {
        log.warn({ err: error }, 'old notifications could not be removed');
        return ctx.resume;
      },
    },
  );
}
