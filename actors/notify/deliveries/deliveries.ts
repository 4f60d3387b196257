/**
 * What sends notifications to webhooks and by mail. One node of the cluster does it at a time; where no other node is
 * known of, each process does, and claims in the database keep two from trying the same at once.
 */
import { InterruptiblePause } from '../../../lib/waiting.ts';
import { hasMail } from '../../../storage/notify/mail.ts';
import { hasWebhooks } from '../../../storage/notify/webhook-deliveries.ts';
import { periodic } from '../../service/periodic.ts';
import type { DeliveryDeps, NotifyDeps } from '../deps.ts';
import { DeliveryConsumer } from './consumer.ts';
import { MailTries } from './mail-tries.ts';
import { WebhookTries } from './webhook-tries.ts';

/** Told when something waits, or somebody asks to be told. */
export const DELIVERIES_CHANNEL = 'deliveries';
const LOOK_MS = 1000;
/** How soon it begins again after a failure. */
const AGAIN_MS = 1000;

/** The part that does it. */
export function deliveries(deps: NotifyDeps, delivery: DeliveryDeps) {
  return periodic({
    service: 'notify',
    name: 'deliveries',
    everyMs: AGAIN_MS,
    placement: deps.placement,
    log: deps.log,
    failure: 'notifications could not be sent',
    work: (signal) => deliver(deps, delivery, signal),
  });
}

/** Does it until the signal aborts. Rejects with StorageError or BusError; what was under way has ended then. */
async function deliver(deps: NotifyDeps, delivery: DeliveryDeps, signal: AbortSignal): Promise<void> {
  const { db } = deps;
  const { lookMs = LOOK_MS, mailer } = delivery;
  const pause = new InterruptiblePause();
  const wake = () => pause.wake();
  const ending = new AbortController();
  const end = () => {
    ending.abort(signal.reason);
    wake();
  };
  const webhooks = new WebhookTries(deps, delivery, ending.signal, wake);
  const mails = mailer && new MailTries(deps, mailer, ending.signal, wake);
  const consumer = new DeliveryConsumer(deps, wake);
  const heard = db.listen(DELIVERIES_CHANNEL, wake);
  signal.addEventListener('abort', end, { once: true });
  try {
    while (!signal.aborted) {
      pause.reset();
      await consumer.follow((await hasWebhooks(db)) || (mails !== undefined && (await hasMail(db))));
      await webhooks.begin();
      await mails?.begin();
      await pause.wait(lookMs);
    }
  } finally {
    signal.removeEventListener('abort', end);
    end();
    await consumer.close();
    await Promise.all([webhooks.idle(), mails?.idle()]);
    await heard.close();
  }
}
