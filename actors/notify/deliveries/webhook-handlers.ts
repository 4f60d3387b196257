/** What users do with their webhooks. */
import { randomUUID } from 'node:crypto';
import { KeyedLimit } from '../../../lib/concurrency.ts';
import type { Call } from '../../../proto/endpoint.ts';
import { Refusal } from '../../../proto/errors.ts';
import { newId } from '../../../proto/ids.ts';
import {
  addWebhook,
  deleteWebhook,
  FORMER_SECRET_MS,
  getWebhook,
  listWebhookDeliveries,
  listWebhooks,
  MAX_WEBHOOKS,
  rotateWebhook,
  testWebhook,
  updateWebhook,
} from '../../../proto/notify/webhooks.ts';
import { WebhookError } from '../../../proto/ports/webhooks.ts';
import { audit } from '../../../storage/audit.ts';
import type { Queries } from '../../../storage/db.ts';
import { addDelivery } from '../../../storage/notify/webhook-deliveries.ts';
import {
  answersOf,
  changeWebhook,
  deleteWebhook as deleteRow,
  insertWebhook,
  replaceSecret,
  secretContext,
  type WebhookRow,
  webhookOf,
  webhooksOf,
} from '../../../storage/notify/webhooks.ts';
import { seal } from '../../../storage/seal.ts';
import { auditEntry } from '../../service/audit.ts';
import { callerOf, type Handler, handler } from '../../service/dispatch.ts';
import { keptReply } from '../../service/kept.ts';
import type { DeliveryDeps, NotifyDeps } from '../deps.ts';
import { webhookAnswerView, webhookView } from '../views.ts';
import { DELIVERIES_CHANNEL } from './deliveries.ts';
import { bodyOf, newSecret } from './webhook-rules.ts';

/** Looks at addresses that run for a user at a time: a resolver may take seconds, and others wait for the same pool. */
const MAX_LOOKS = 2;
/** When a user may look again, seconds. */
const LOOK_AGAIN_S = 5;

/** The handlers. Without `deliveries` what needs the key is refused as `not_configured`. */
export function webhookHandlers({ db, clock, deliveries }: NotifyDeps): readonly Handler<undefined>[] {
  const configured = (): DeliveryDeps => {
    if (deliveries === undefined)
      throw new Refusal('not_configured', { message: 'This platform sends nothing to webhooks.' });
    return deliveries;
  };
  const found = async (queries: Queries, call: Call, id: string): Promise<WebhookRow> => {
    const row = await webhookOf(queries, callerOf(call).userId, id);
    if (row === undefined) throw new Refusal('not_found');
    return row;
  };
  const looks = new KeyedLimit(MAX_LOOKS);
  /** Throws Refusal: an address that the platform does not call, or too many looks of the user. */
  const look = async (call: Call, sender: DeliveryDeps['sender'], url: string): Promise<void> => {
    const leave = looks.enter(callerOf(call).userId);
    if (leave === undefined)
      throw new Refusal('too_many_changes', {
        message: 'Other addresses of yours are being looked at: wait for them.',
        retryAfter: LOOK_AGAIN_S,
      });
    try {
      await checked(sender, url);
    } finally {
      leave();
    }
  };

  return [
    handler(listWebhooks, async (_: undefined, call) =>
      (await webhooksOf(db, callerOf(call).userId)).map((row) => webhookView(row)),
    ),
    handler(getWebhook, async (_: undefined, call) => webhookView(await found(db, call, call.params.id))),
    handler(addWebhook, async (_: undefined, call) => {
      const { sealKey, sender } = configured();
      const { url, categories } = call.body;
      await look(call, sender, url);
      const [id, secret, { userId }] = [newId(), newSecret(), callerOf(call)];
      return db.tx(async (tx) => {
        const sealed = seal(sealKey, secretContext(id), Buffer.from(secret));
        if (!(await insertWebhook(tx, { id, userId, url, categories, secret: sealed }, MAX_WEBHOOKS)))
          throw new Refusal('limit_reached', { message: `You have ${MAX_WEBHOOKS} webhooks: delete one first.` });
        await audit(tx, auditEntry(call, 'webhook.create', id, { host: new URL(url).host, categories }));
        await tx.hint(DELIVERIES_CHANNEL);
        return keptReply(tx, call, { ...webhookView(await found(tx, call, id)), secret });
      });
    }),
    handler(updateWebhook, async (_: undefined, call) => {
      const { sender } = configured();
      const { id } = call.params;
      const { url, ...rest } = call.body;
      const former = await found(db, call, id);
      if (Object.values(call.body).every((value) => value === undefined)) return webhookView(former);
      if (url !== undefined) await look(call, sender, url);
      return db.tx(async (tx) => {
        if (!(await changeWebhook(tx, callerOf(call).userId, id, { url, ...rest }))) throw new Refusal('not_found');
        const host = url === undefined ? {} : { host: new URL(url).host };
        await audit(tx, auditEntry(call, 'webhook.update', id, { ...host, ...rest }));
        await tx.hint(DELIVERIES_CHANNEL);
        return webhookView(await found(tx, call, id));
      });
    }),
    handler(deleteWebhook, async (_: undefined, call) => {
      const { id } = call.params;
      await db.tx(async (tx) => {
        const url = await deleteRow(tx, callerOf(call).userId, id);
        if (url === undefined) throw new Refusal('not_found');
        await audit(tx, auditEntry(call, 'webhook.delete', id, { host: new URL(url).host }));
      });
      return { status: 'ok' } as const;
    }),
    handler(rotateWebhook, async (_: undefined, call) => {
      const { sealKey } = configured();
      const { id } = call.params;
      const secret = newSecret();
      const sealed = seal(sealKey, secretContext(id), Buffer.from(secret));
      const formerUntil = new Date(clock.now() + FORMER_SECRET_MS);
      return db.tx(async (tx) => {
        if (!(await replaceSecret(tx, callerOf(call).userId, id, sealed, formerUntil))) throw new Refusal('not_found');
        await audit(tx, auditEntry(call, 'webhook.rotate', id));
        return { ...webhookView(await found(tx, call, id)), secret };
      });
    }),
    handler(testWebhook, async (_: undefined, call) => {
      const row = await found(db, call, call.params.id);
      if (!row.enabled) throw new Refusal('conflict', { message: 'The webhook is disabled: enable it first.' });
      const [eventId, now] = [randomUUID(), new Date(clock.now())];
      const text = { title: 'Test', message: 'This is a test of your webhook.', link: '', category: '', scope: '' };
      const body = bodyOf('test', { userId: row.userId, eventId, ...text }, now);
      await db.tx(async (tx) => {
        if (!(await addDelivery(tx, row.id, eventId, body, now)))
          throw new Refusal('limit_reached', { message: 'Too many deliveries wait for this webhook.' });
        await tx.hint(DELIVERIES_CHANNEL);
      });
      return { event_id: eventId };
    }),
    handler(listWebhookDeliveries, async (_: undefined, call) => {
      const { id } = await found(db, call, call.params.id);
      return (await answersOf(db, id)).map((row) => webhookAnswerView(row));
    }),
  ];
}

/** Throws Refusal `invalid_request` for an address that the platform does not call. */
async function checked(sender: DeliveryDeps['sender'], url: string): Promise<void> {
  try {
    await sender.check(url);
  } catch (error) {
    if (!(error instanceof WebhookError)) throw error;
    throw new Refusal('invalid_request', {
      message: error.message,
      fields: [{ path: 'url', message: error.message }],
      cause: error,
    });
  }
}
