/**
 * Takes notifications from the stream for webhooks and mail. What is wanted is written down as waiting, and then
 * acknowledged: from there on nothing is lost, and a message that comes again finds its rows.
 */

import { NOTIFICATIONS_STREAM } from '../../../proto/notify/notification.ts';
import type { StreamMessage } from '../../../proto/ports/bus.ts';
import type { Ending } from '../../../proto/ports/ending.ts';
import { DELIVERIES_CONSUMER } from '../../../proto/subjects.ts';
import type { NewNotification } from '../../../storage/notify/arrivals.ts';
import { addMailed, usersWithMail } from '../../../storage/notify/mail.ts';
import { addDeliveries, usersWithWebhooks } from '../../../storage/notify/webhook-deliveries.ts';
import type { NotifyDeps } from '../deps.ts';
import { isPassing, readIncoming } from '../intake-rules.ts';
import { bodyOf, webhookId } from './webhook-rules.ts';

/** While the database is away. */
const AWAY_MS = 60_000;
/** After another failure, so many times. */
const FAILED_MS = 5000;
const MOST_FAILURES = 5;

interface DeliveryItem {
  readonly notification: NewNotification;
  readonly storedAt: Date;
}

/** The consumer, which is there only while somebody has a webhook or gets mail: else nobody pays for it. */
export class DeliveryConsumer {
  readonly #deps: NotifyDeps;
  readonly #onAdded: () => void;
  #consuming: Ending | undefined;

  /** `onAdded`: something waits. */
  constructor(deps: NotifyDeps, onAdded: () => void) {
    this.#deps = deps;
    this.#onAdded = onAdded;
  }

  /** Begins to consume, or ends, as `isWanted` says. Rejects with BusError. */
  async follow(isWanted: boolean): Promise<void> {
    if (isWanted === (this.#consuming !== undefined)) return;
    if (!isWanted) {
      await this.close();
      return;
    }
    const { bus } = this.#deps;
    await bus.ensureStream(NOTIFICATIONS_STREAM);
    this.#consuming = await bus.consume(NOTIFICATIONS_STREAM.name, DELIVERIES_CONSUMER, (batch) => this.#take(batch));
  }

  async close(): Promise<void> {
    const consuming = this.#consuming;
    this.#consuming = undefined;
    await consuming?.close();
  }

  async #take(batch: readonly StreamMessage[]): Promise<void> {
    try {
      await this.#keep(batch);
      await Promise.all(batch.map((message) => message.ack()));
    } catch (error) {
      this.#deps.log.warn({ err: error, messages: batch.length }, 'deliveries could not be kept');
      if (isPassing(error)) await Promise.all(batch.map((message) => message.nak(AWAY_MS)));
      else for (const message of batch) await this.#takeAlone(message);
    }
  }

  /** One that cannot be kept must not hold up its batch. */
  async #takeAlone(message: StreamMessage): Promise<void> {
    try {
      await this.#keep([message]);
      await message.ack();
    } catch {
      if (message.deliveryCount < MOST_FAILURES) await message.nak(FAILED_MS);
      else await message.term('it could not be kept for delivery');
    }
  }

  async #keep(batch: readonly StreamMessage[]): Promise<void> {
    const { db, clock } = this.#deps;
    const now = new Date(clock.now());
    // What is no notification is a dead letter of the intake.
    const items = batch.flatMap((message): DeliveryItem[] => {
      const read = readIncoming(message);
      if ('refused' in read) return [];
      return [{ notification: read.notification, storedAt: new Date(message.storedAt ?? clock.now()) }];
    });
    const userIds = [...new Set(items.map(({ notification }) => notification.userId))];
    const [hooked, mailed] = [await usersWithWebhooks(db, userIds), await usersWithMail(db, userIds)];
    const forHooks = items.filter(({ notification }) => hooked.has(notification.userId));
    const forMail = items.filter(({ notification }) => mailed.has(notification.userId));
    if (forHooks.length > 0)
      await addDeliveries(
        db,
        forHooks.map(({ notification, storedAt }) => {
          const { userId, category, scope } = notification;
          const eventId = webhookId(notification.eventId);
          const body = bodyOf('notification', { ...notification, eventId }, storedAt);
          return { userId, eventId, category, scope, body, storedAt };
        }),
        now,
      );
    if (forMail.length > 0)
      await addMailed(
        db,
        forMail.map(({ notification, storedAt }) => ({ ...notification, storedAt })),
        now,
      );
    if (forHooks.length + forMail.length > 0) this.#onAdded();
  }
}
