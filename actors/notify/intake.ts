/**
 * Takes notifications from the stream: a batch is stored in one transaction, acknowledged after it, and told to the actors of its users.
 * A delivery that comes again finds its row, so nothing is doubled; what is no notification is a dead letter at once; what cannot be
 * stored is one after five attempts (interface section 6.1).
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { NOTIFICATIONS_STREAM } from '../../proto/notification.ts';
import type { StreamMessage } from '../../proto/ports.ts';
import { NOTIFICATIONS_CONSUMER } from '../../proto/subjects.ts';
import { type Arrivals, type NewNotification, storeNotifications } from '../../storage/notify/arrivals.ts';
import type { NotificationRow } from '../../storage/notify/notifications.ts';
import { type AnyRef, spawn } from '../../supervision/index.ts';
import type { NotifyDeps } from './deps.ts';
import { readIncoming } from './incoming-rules.ts';
import { afterFailure, isPassing } from './intake-rules.ts';
import type { UserMessage } from './user.ts';

/** Most rows of one transaction. */
const MOST_ROWS = 500;
const DEFAULT_HOLD_MS = 20_000;

interface Item {
  readonly message: StreamMessage;
  readonly notification: NewNotification;
}

/** Starts the actor that owns the consumer. Rejects with BusError when it cannot consume. */
export async function startIntake(
  parent: AnyRef,
  deps: NotifyDeps,
  tell: (userId: string, message: UserMessage) => void,
  tellOthers: (userIds: Iterable<string>) => void,
): Promise<AnyRef> {
  const stopping = new AbortController();
  const intake = new Intake(deps, tell, tellOthers, stopping.signal);
  await deps.bus.ensureStream(NOTIFICATIONS_STREAM);
  const consuming = await deps.bus.consume(NOTIFICATIONS_STREAM.name, NOTIFICATIONS_CONSUMER, (batch) =>
    intake.take(batch),
  );
  const end = async () => {
    stopping.abort();
    await consuming.close();
    await intake.idle();
  };
  try {
    return spawn<null, never>(parent, (state) => state, {
      name: 'intake',
      kind: 'notify/intake',
      initialState: null,
      afterStop: end,
    });
  } catch (error) {
    // The service began to stop meanwhile.
    await end();
    throw error;
  }
}

class Intake {
  readonly #deps: NotifyDeps;
  readonly #tell: (userId: string, message: UserMessage) => void;
  readonly #tellOthers: (userIds: Iterable<string>) => void;
  readonly #stopping: AbortSignal;
  /** Answers to the bus of the batch before: they travel while the next batch is stored. */
  #answering: Promise<void> = Promise.resolve();

  constructor(
    deps: NotifyDeps,
    tell: (userId: string, message: UserMessage) => void,
    tellOthers: (userIds: Iterable<string>) => void,
    stopping: AbortSignal,
  ) {
    this.#deps = deps;
    this.#tell = tell;
    this.#tellOthers = tellOthers;
    this.#stopping = stopping;
  }

  /** Resolves once every answer was given. */
  async idle(): Promise<void> {
    await this.#answering;
  }

  async take(batch: readonly StreamMessage[]): Promise<void> {
    const { numbers, clock, holdMs = DEFAULT_HOLD_MS } = this.#deps;
    numbers.received += batch.length;
    const items: Item[] = [];
    const answers: Promise<void>[] = [];
    for (const message of batch) {
      const incoming = readIncoming(message);
      if ('notification' in incoming) items.push({ message, notification: incoming.notification });
      else answers.push(this.#refuse(message, incoming.refused));
    }
    const deadline = clock.now() + holdMs;
    for (let at = 0; at < items.length; at += MOST_ROWS) {
      answers.push(...(await this.#store(items.slice(at, at + MOST_ROWS), deadline)));
    }
    await this.#answering;
    this.#answering = this.#settle(answers);
  }

  /** Stores items, or finds those that cannot be. Returns the answers to the bus that are on their way. */
  async #store(items: readonly Item[], deadline: number): Promise<Promise<void>[]> {
    let failure: unknown;
    try {
      const arrivals = await this.#insert(items, deadline);
      return this.#stored(items, arrivals);
    } catch (error) {
      failure = error;
    }
    const half = Math.ceil(items.length / 2);
    if (items.length > 1 && !isPassing(failure)) {
      return [
        ...(await this.#store(items.slice(0, half), deadline)),
        ...(await this.#store(items.slice(half), deadline)),
      ];
    }
    this.#deps.log.warn({ err: failure, messages: items.length }, 'notifications could not be stored');
    return items.map(({ message }) => this.#failed(message, failure));
  }

  /** While the database is away there is nothing better to do than to wait: an attempt is not spent on it at once. */
  async #insert(items: readonly Item[], deadline: number): Promise<Arrivals> {
    const { db, clock } = this.#deps;
    for (let pause = 100; ; pause = Math.min(pause * 2, 2000)) {
      try {
        return await storeNotifications(
          db,
          items.map(({ notification }) => notification),
        );
      } catch (error) {
        if (!isPassing(error) || this.#stopping.aborted || clock.now() + pause >= deadline) throw error;
        await sleep(pause, undefined, { signal: this.#stopping }).catch(() => undefined);
      }
    }
  }

  #stored(items: readonly Item[], { arrivals, at, heads }: Arrivals): Promise<void>[] {
    const { numbers } = this.#deps;
    const rows = new Map<string, NotificationRow[]>();
    const again = new Set<string>();
    const answers = items.map(({ message, notification }, index): Promise<void> => {
      const arrival = arrivals[index];
      const { userId } = notification;
      if (arrival === 'no_user') return this.#refuse(message, 'there is no such user');
      if (arrival === 'muted') numbers.muted += 1;
      else if (arrival === 'known' || arrival === undefined) {
        // Stored by a delivery whose end we may not have seen: its sockets were perhaps not told.
        numbers.known += 1;
        again.add(userId);
      } else {
        numbers.stored += 1;
        const { eventId: _, ...fields } = notification;
        const row = { ...fields, id: arrival.id, read: false, createdAt: at };
        const ofUser = rows.get(userId);
        if (ofUser === undefined) rows.set(userId, [row]);
        else ofUser.push(row);
      }
      return message.ack();
    });
    for (const [userId, stored] of rows)
      this.#tell(userId, { type: 'arrived', after: heads.get(userId) ?? 0, rows: stored });
    for (const userId of again) this.#tell(userId, { type: 'look' });
    // Those delivered again too: whoever stored them may have ended before it told.
    this.#tellOthers(new Set([...rows.keys(), ...again]));
    return answers;
  }

  #refuse(message: StreamMessage, reason: string): Promise<void> {
    this.#deps.numbers.refused += 1;
    this.#deps.log.warn({ subject: message.subject, seq: message.seq, reason }, 'a notification is refused');
    return message.term(reason);
  }

  #failed(message: StreamMessage, error: unknown): Promise<void> {
    const verdict = afterFailure(error, message.deliveryCount);
    if ('giveUp' in verdict) {
      this.#deps.numbers.lost += 1;
      return message.term(verdict.giveUp);
    }
    this.#deps.numbers.retried += 1;
    return message.nak(verdict.retryInMs);
  }

  /** Messages whose answer is lost are delivered again, and found. */
  async #settle(answers: readonly Promise<void>[]): Promise<void> {
    const results = await Promise.allSettled(answers);
    const lost = results.find(({ status }) => status === 'rejected');
    if (lost?.status === 'rejected')
      this.#deps.log.warn({ err: lost.reason }, 'the bus did not take answers: it delivers again');
  }
}
