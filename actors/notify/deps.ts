/** What the notification service is given by the composition root. */
import type { KeyObject } from 'node:crypto';
import type { Bus } from '../../proto/ports/bus.ts';
import type { Clock } from '../../proto/ports/clock.ts';
import type { Log } from '../../proto/ports/log.ts';
import type { Mailer } from '../../proto/ports/mailer.ts';
import type { WebhookSender } from '../../proto/ports/webhooks.ts';
import type { UserLimits } from '../../proto/user-limits.ts';
import type { Db } from '../../storage/db.ts';
import type { Placement } from '../service/placement.ts';

export interface NotifyDeps {
  readonly db: Db;
  readonly bus: Bus;
  readonly log: Log;
  /** What users may have for whom the operator set nothing. */
  readonly userLimits: UserLimits;
  readonly clock: Clock;
  readonly numbers: NotifyNumbers;
  /** Where sockets of all processes are counted. Undefined: no other process has any. */
  readonly placement?: Placement | undefined;
  /** Undefined: this process has no key that seals secrets, and sends nothing to webhooks or by mail. */
  readonly deliveries: DeliveryDeps | undefined;
  /** How long a client may leave what was sent to it unread before it is closed. Default 30 s. */
  readonly slowMs?: number;
  /** How long a batch waits for a database that is away, before it is given back to the bus. Default 20 s. */
  readonly holdMs?: number;
}

/** How notifications leave the platform. */
export interface DeliveryDeps {
  /** Seals the secrets of webhooks. */
  readonly sealKey: KeyObject;
  readonly sender: WebhookSender;
  /** Undefined: the operator has named no mail server. */
  readonly mailer: Mailer | undefined;
  /** How often the database is asked what is due, ms. Default 1,000. */
  readonly lookMs?: number;
}

/** What the service has done in this process, for /metrics: numbers that begin at zero. */
export function notifyNumbers() {
  return {
    /** Messages taken from the stream, repeated deliveries included. */
    received: 0,
    /** What became of them. */
    stored: 0,
    known: 0,
    muted: 0,
    /** No notification, or to nobody: dead letters. */
    refused: 0,
    /** Given back to the bus after a failed insert. */
    retried: 0,
    /** Given up after the last attempt: dead letters. */
    lost: 0,
    /** Frames sent to sockets. */
    pushed: 0,
    /** Sockets that are open. */
    sockets: 0,
    /** Requests to webhooks that succeeded, and that did not. */
    webhooks: 0,
    webhookFailures: 0,
    /** Mails that the mail server took, and tries that failed. */
    mails: 0,
    mailFailures: 0,
  };
}

export type NotifyNumbers = ReturnType<typeof notifyNumbers>;
