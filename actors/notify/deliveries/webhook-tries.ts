/**
 * Tries what waits for webhooks, many at once, and few of each webhook and user: who is slow to answer holds up nobody
 * else.
 */
import { notificationEvent } from '../../../proto/notify/notification.ts';
import { WebhookError } from '../../../proto/ports/webhooks.ts';
import {
  type ClaimedDelivery,
  claimDeliveries,
  finishDelivery,
  releaseDelivery,
} from '../../../storage/notify/webhook-deliveries.ts';
import { secretContext } from '../../../storage/notify/webhooks.ts';
import { append } from '../../../storage/outbox.ts';
import { open, SealError } from '../../../storage/seal.ts';
import type { DeliveryDeps, NotifyDeps } from '../deps.ts';
import { MOST_DEAD, outcomeOf, sentenceOf, signedHeaders } from './webhook-rules.ts';

/** Requests under way at once: of all webhooks, of those of a user, and of one. */
const MOST_AT_ONCE = 128;
const MOST_OF_USER = 4;
const MOST_OF_WEBHOOK = 2;
/** When a try counts as lost: well after a request has ended, which takes 10 s at most. */
const CLAIM_MS = 30_000;

const NOT_OPENED = 'Its secret cannot be opened with the key of this platform: rotate it.';

/** What a request came to. */
interface TryAnswer {
  readonly status: number | undefined;
  readonly error: string;
}

/** The requests of this process. */
export class WebhookTries {
  readonly #deps: NotifyDeps;
  readonly #delivery: DeliveryDeps;
  readonly #signal: AbortSignal;
  readonly #onEnd: () => void;
  readonly #running = new Map<ClaimedDelivery, Promise<void>>();

  /** `onEnd`: one of them has ended. `signal` ends all of them. */
  constructor(deps: NotifyDeps, delivery: DeliveryDeps, signal: AbortSignal, onEnd: () => void) {
    this.#deps = deps;
    this.#delivery = delivery;
    this.#signal = signal;
    this.#onEnd = onEnd;
  }

  /** Begins what is due, as far as there is room. Rejects with StorageError. */
  async begin(): Promise<void> {
    const { db, clock } = this.#deps;
    while (this.#running.size < MOST_AT_ONCE && !this.#signal.aborted) {
      const now = clock.now();
      const claimed = await claimDeliveries(db, {
        now: new Date(now),
        until: new Date(now + CLAIM_MS),
        except: this.#busy(),
        most: MOST_AT_ONCE - this.#running.size,
      });
      if (claimed.length === 0) return;
      for (const delivery of claimed) this.#start(delivery);
    }
  }

  /** Resolves once all of them have ended. */
  async idle(): Promise<void> {
    await Promise.all(this.#running.values());
  }

  /** Webhooks of which no other request may begin. */
  #busy(): string[] {
    const [ofWebhook, ofUser] = [new Map<string, number>(), new Map<string, number>()];
    for (const { webhookId, userId } of this.#running.keys()) {
      ofWebhook.set(webhookId, (ofWebhook.get(webhookId) ?? 0) + 1);
      ofUser.set(userId, (ofUser.get(userId) ?? 0) + 1);
    }
    const isBusy = ({ webhookId, userId }: ClaimedDelivery) =>
      (ofWebhook.get(webhookId) ?? 0) >= MOST_OF_WEBHOOK || (ofUser.get(userId) ?? 0) >= MOST_OF_USER;
    return [...new Set([...this.#running.keys()].filter(isBusy).map(({ webhookId }) => webhookId))];
  }

  #start(delivery: ClaimedDelivery): void {
    const running = this.#try(delivery)
      .catch((error: unknown) => {
        // It is due again when the claim is over.
        this.#deps.log.warn({ err: error, webhook: delivery.webhookId }, 'a delivery could not be finished');
      })
      .finally(() => {
        this.#running.delete(delivery);
        this.#onEnd();
      });
    this.#running.set(delivery, running);
  }

  async #try(delivery: ClaimedDelivery): Promise<void> {
    const { db, clock, numbers } = this.#deps;
    const began = performance.now();
    const answer = await this.#send(delivery);
    const now = clock.now();
    if (answer === undefined) {
      await releaseDelivery(db, delivery, new Date(now));
      return;
    }
    const { status, error } = answer;
    const outcome = outcomeOf(status, delivery, now);
    if (outcome.kind === 'done') numbers.webhooks += 1;
    else numbers.webhookFailures += 1;
    const row = { at: new Date(now), status: status ?? null, ms: Math.round(performance.now() - began), error };
    const rules = {
      mostDead: MOST_DEAD,
      onDisabled: (tx: Parameters<typeof append>[0]) => append(tx, disabledEvent(delivery, now, error)),
    };
    const { disabled } = await finishDelivery(db, delivery, row, outcome, rules);
    if (disabled !== undefined) this.#deps.log.info({ webhook: delivery.webhookId, disabled }, 'a webhook is disabled');
  }

  /** Undefined: it was broken off because this process ends. */
  async #send(delivery: ClaimedDelivery): Promise<TryAnswer | undefined> {
    const { url, body, eventId } = delivery;
    try {
      const headers = signedHeaders(eventId, body, this.#deps.clock.now(), this.#secrets(delivery));
      const status = await this.#delivery.sender.send({ url, headers, body }, this.#signal);
      return { status, error: sentenceOf(status) };
    } catch (error) {
      if (error instanceof WebhookError) return { status: undefined, error: error.message };
      if (error instanceof SealError) return { status: undefined, error: NOT_OPENED };
      if (this.#signal.aborted) return undefined;
      throw error;
    }
  }

  #secrets({ webhookId, secret, former }: ClaimedDelivery): string[] {
    const sealed = former === null ? [secret] : [secret, former];
    return sealed.map((bytes) => open(this.#delivery.sealKey, secretContext(webhookId), bytes).toString());
  }
}

/** Tells the user. Mail and other webhooks of theirs get it, too. */
function disabledEvent({ userId, webhookId, url }: ClaimedDelivery, now: number, error: string) {
  return notificationEvent('notify', now, {
    userId,
    title: 'Webhook disabled',
    message: `Your webhook to ${new URL(url).host} is disabled: nothing more is sent to it. Its last answer: ${error}`,
    link: '',
    category: 'webhooks',
    scope: webhookId,
  });
}
