/**
 * Takes notifications from the stream: a batch is stored in one transaction, acknowledged after it, and told to the
 * actors of its users. A delivery that comes again finds its row, so nothing is doubled; what is no notification is a
 * dead letter at once; what cannot be stored is one after five attempts.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { NOTIFICATIONS_STREAM } from '../../proto/notify/notification.ts';
import type { StreamMessage } from '../../proto/ports/bus.ts';
import { NOTIFICATIONS_CONSUMER } from '../../proto/subjects.ts';
import { type NewNotification, type StoredArrivals, storeNotifications } from '../../storage/notify/arrivals.ts';
import type { NotificationRow } from '../../storage/notify/notifications.ts';
import type { AnyRef } from '../../supervision/index.ts';
import type { EntitiesPart } from '../service/parts.ts';
import { ownerActor } from '../service/supervisor.ts';
import type { NotifyDeps } from './deps.ts';
import { afterFailure, isPassing, readIncoming } from './intake-rules.ts';
import type { PeerHints } from './peer-hints.ts';
import type { NotifyUserMessage } from './user.ts';

/** Most rows of one transaction. */
const MOST_ROWS = 1000;
/** Fewer are not worth two transactions. */
const FEW_ROWS = 250;
/** Less than the ack wait: what waits for the database must not be delivered again meanwhile. */
const DEFAULT_HOLD_MS = 20_000;

/** What the bus delivered at once. */
interface DeliveredBatch {
  /** Until when it may wait for a database that is away, Unix ms. */
  readonly deadline: number;
  /** Notifications that wait or are being stored. */
  left: number;
  readonly done: () => void;
}

interface Item {
  readonly message: StreamMessage;
  readonly notification: NewNotification;
  readonly batch: DeliveredBatch;
}

/**
 * The notifications of some users that wait, in order. Those of the two partitions are stored beside each other: the
 * database has no lock that users of both share. All of one user pass the same partition, so they are stored in the
 * order in which they came.
 */
interface Partition {
  /** Read and not stored yet; the bus bounds how many. */
  readonly waiting: Item[];
  isBusy: boolean;
}

/**
 * The sockets to which the intake pushes. A user without one is not told: who delivers notifications elsewhere consumes
 * the stream beside the intake.
 */
interface NotificationSockets {
  /** Users of whom sockets may be there to be told. */
  readonly present: Pick<ReadonlyMap<string, unknown>, 'has'>;
  readonly users: EntitiesPart<NotifyUserMessage>;
  /** Other processes, which may have sockets of the same users. */
  readonly others: PeerHints;
}

/** Starts the actor that owns the consumer. Rejects with BusError when it cannot consume. */
export async function startIntake(parent: AnyRef, deps: NotifyDeps, sockets: NotificationSockets): Promise<AnyRef> {
  const stopping = new AbortController();
  const intake = new Intake(deps, sockets, stopping.signal);
  await deps.bus.ensureStream(NOTIFICATIONS_STREAM);
  const consuming = await deps.bus.consume(NOTIFICATIONS_STREAM.name, NOTIFICATIONS_CONSUMER, (messages) =>
    intake.take(messages),
  );
  return ownerActor(parent, 'notify', 'intake', async () => {
    stopping.abort();
    await consuming.close();
    await intake.idle();
  });
}

class Intake {
  readonly #deps: NotifyDeps;
  readonly #sockets: NotificationSockets;
  readonly #stopping: AbortSignal;
  readonly #partitions: readonly [Partition, Partition] = [
    { waiting: [], isBusy: false },
    { waiting: [], isBusy: false },
  ];
  readonly #writing = new Set<Promise<void>>();
  /** Answers to the bus of what was stored last: they travel while the next is stored. */
  #answering: Promise<unknown> = Promise.resolve();

  constructor(deps: NotifyDeps, sockets: NotificationSockets, stopping: AbortSignal) {
    this.#deps = deps;
    this.#sockets = sockets;
    this.#stopping = stopping;
  }

  /** Resolves once every answer was given. */
  async idle(): Promise<void> {
    while (this.#writing.size > 0) await Promise.all(this.#writing);
    await this.#answering;
  }

  /** Resolves once the batch was stored, or its end is known. */
  async take(messages: readonly StreamMessage[]): Promise<void> {
    const { numbers, clock, holdMs = DEFAULT_HOLD_MS } = this.#deps;
    numbers.received += messages.length;
    const refusals: Promise<void>[] = [];
    await new Promise<void>((done) => {
      const batch: DeliveredBatch = { deadline: clock.now() + holdMs, left: 0, done };
      for (const message of messages) {
        const incoming = readIncoming(message);
        if ('refused' in incoming) refusals.push(this.#refuse(message, incoming.refused));
        else {
          batch.left += 1;
          const { notification } = incoming;
          this.#partitions[partitionOf(notification.userId)].waiting.push({ message, notification, batch });
        }
      }
      if (refusals.length > 0) this.#answering = Promise.all([this.#answering, this.#settle(refusals)]);
      if (batch.left === 0) done();
      else this.#begin();
    });
  }

  /** Stores what waits in partitions that are free, as much at a time as there is. */
  #begin(): void {
    const free = this.#partitions.filter(({ isBusy, waiting }) => !isBusy && waiting.length > 0);
    const isFew = free.reduce((sum, { waiting }) => sum + waiting.length, 0) <= FEW_ROWS;
    for (const partitions of isFew && free.length > 0 ? [free] : free.map((partition) => [partition])) {
      const items = partitions.flatMap(({ waiting }) => waiting.splice(0, MOST_ROWS));
      for (const partition of partitions) partition.isBusy = true;
      const writing = this.#write(items).then(() => {
        this.#writing.delete(writing);
        for (const partition of partitions) partition.isBusy = false;
        this.#begin();
      });
      this.#writing.add(writing);
    }
  }

  async #write(items: readonly Item[]): Promise<void> {
    const answers: Promise<void>[] = [];
    try {
      await this.#store(items, items[0]?.batch.deadline ?? 0, answers);
    } catch (error) {
      // Those that were answered keep their answer.
      for (const { message } of items) answers.push(this.#failed(message, error));
    }
    release(items);
    const before = this.#answering;
    this.#answering = Promise.all([before, this.#settle(answers)]);
    await before;
  }

  /** Stores items, or finds those that cannot be. Adds the answers to the bus, which are on their way. */
  async #store(items: readonly Item[], deadline: number, answers: Promise<void>[]): Promise<void> {
    const arrivals = await this.#insert(items, deadline).catch((error: unknown) => ({ failure: error }));
    if (!('failure' in arrivals)) {
      this.#stored(items, arrivals, answers);
      return;
    }
    const { failure } = arrivals;
    const half = Math.ceil(items.length / 2);
    if (items.length > 1 && !isPassing(failure)) {
      await this.#store(items.slice(0, half), deadline, answers);
      await this.#store(items.slice(half), deadline, answers);
      return;
    }
    const overdue = isPassing(failure) ? this.#takeOverdue() : [];
    const messages = items.length + overdue.length;
    this.#deps.log.warn({ err: failure, messages }, 'notifications could not be stored');
    for (const { message } of [...items, ...overdue]) answers.push(this.#failed(message, failure));
    release(overdue);
  }

  /**
   * What has waited for the database as long as it may: an attempt for each thousand of them would take until they are
   * delivered again.
   */
  #takeOverdue(): Item[] {
    const now = this.#stopping.aborted ? Number.POSITIVE_INFINITY : this.#deps.clock.now();
    return this.#partitions.flatMap(({ waiting }) => {
      const first = waiting.findIndex(({ batch }) => batch.deadline > now);
      return waiting.splice(0, first === -1 ? waiting.length : first);
    });
  }

  /** While the database is away there is nothing better to do than to wait: an attempt is not spent on it at once. */
  async #insert(items: readonly Item[], deadline: number): Promise<StoredArrivals> {
    const { db, clock } = this.#deps;
    const batch = items.map(({ notification }) => notification);
    const users = new Set(batch.map(({ userId }) => userId));
    const headsOf = [...users].filter((userId) => this.#sockets.present.has(userId));
    const mayBeKnown = items.some(({ message }) => message.deliveryCount > 1);
    for (let pause = 100; ; pause = Math.min(pause * 2, 2000)) {
      try {
        return await storeNotifications(db, batch, { headsOf, mayBeKnown });
      } catch (error) {
        if (!isPassing(error) || this.#stopping.aborted || clock.now() + pause >= deadline) throw error;
        await sleep(pause, undefined, { signal: this.#stopping }).catch(() => undefined);
      }
    }
  }

  /**
   * Answers the bus and tells the users. Those who came while the insert ran have no head: their sockets look into
   * storage.
   */
  #stored(items: readonly Item[], { arrivals, at, heads }: StoredArrivals, answers: Promise<void>[]): void {
    const { numbers } = this.#deps;
    const { present, users, others } = this.#sockets;
    const rows = new Map<string, NotificationRow[]>();
    const looking = new Set<string>();
    for (const [index, { message, notification }] of items.entries()) {
      const arrival = arrivals[index];
      const { userId } = notification;
      if (arrival === 'no_user') {
        answers.push(this.#refuse(message, 'there is no such user'));
        continue;
      }
      answers.push(message.ack());
      if (arrival === 'muted') {
        numbers.muted += 1;
        continue;
      }
      if (arrival === 'known' || arrival === undefined) {
        // Stored by a delivery whose end we may not have seen: its sockets were perhaps not told.
        numbers.known += 1;
        looking.add(userId);
        continue;
      }
      numbers.stored += 1;
      if (!heads.has(userId)) {
        looking.add(userId);
        continue;
      }
      const { eventId: _, ...fields } = notification;
      const row = { ...fields, id: arrival.id, read: false, createdAt: at };
      const ofUser = rows.get(userId);
      if (ofUser === undefined) rows.set(userId, [row]);
      else ofUser.push(row);
    }
    for (const [userId, stored] of rows)
      users.tell(userId, { type: 'arrived', after: heads.get(userId) ?? 0, rows: stored });
    for (const userId of looking) if (present.has(userId)) users.tell(userId, { type: 'look' });
    // Those delivered again too: whoever stored them may have ended before it told.
    others.tell(new Set([...rows.keys(), ...looking]));
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
    // Those that leave together share a promise.
    const results = await Promise.allSettled(new Set(answers));
    const lost = results.find(({ status }) => status === 'rejected');
    if (lost?.status === 'rejected')
      this.#deps.log.warn({ err: lost.reason }, 'the bus did not take answers: it delivers again');
  }
}

function partitionOf(userId: string): 0 | 1 {
  return userId.charCodeAt(userId.length - 1) % 2 === 0 ? 0 : 1;
}

function release(items: readonly Item[]): void {
  for (const { batch } of items) {
    batch.left -= 1;
    if (batch.left === 0) batch.done();
  }
}
