import { randomBytes } from 'node:crypto';
import { errorText } from '../../lib/errors.ts';
import { BusError, type BusMessage } from '../../proto/ports/bus.ts';
import type { Ending } from '../../proto/ports/ending.ts';
import type { Log } from '../../proto/ports/log.ts';
import { checkPattern, checkSubject, SubjectTree } from './subjects.ts';

/** Messages that may wait for one subscriber; of more, the newest are dropped and counted in the log. */
const MAX_PENDING = 65_536;
/** Messages handled before others get their turn. */
const SLICE = 256;

/** Publish, subscribe and request within this process: at most once, each subscriber in the order of publishing. */
export class Core {
  readonly #log: Log;
  readonly #subscriptions = new SubjectTree<BusSubscription>();
  readonly #all = new Set<BusSubscription>();
  readonly #requests = new Map<string, { answer: (data: Uint8Array) => void; reject: (error: BusError) => void }>();
  readonly #inbox = `_INBOX.${randomBytes(8).toString('hex')}`;
  #nextRequest = 0;
  #turn = 0;

  constructor(log: Log) {
    this.#log = log;
  }

  /** Returns the number of subscribers that get it. */
  publish(subject: string, data: Uint8Array, reply?: string): number {
    checkSubject(subject);
    const request = this.#requests.get(subject);
    if (request !== undefined) {
      request.answer(new Uint8Array(data));
      return 1;
    }
    const receivers = this.#receivers(subject);
    for (const receiver of receivers) {
      // Each gets its own bytes: the sender may use its buffer again, and one receiver may change what it got.
      // (`slice` of a Buffer would share its memory.)
      const own = new Uint8Array(data);
      receiver.push(reply === undefined ? { subject, data: own } : { subject, data: own, reply });
    }
    return receivers.length;
  }

  subscribe(
    pattern: string,
    handler: (message: BusMessage) => void,
    { queue, drains = false }: { queue?: string; drains?: boolean },
  ): Ending {
    checkPattern(pattern);
    const subscription = new BusSubscription(handler, queue, this.#log.child({ subject: pattern }));
    this.#subscriptions.add(pattern, subscription);
    this.#all.add(subscription);
    return {
      close: async () => {
        this.#subscriptions.remove(pattern, subscription);
        if (drains) await subscription.idle();
        this.#all.delete(subscription);
        subscription.end();
      },
    };
  }

  request(subject: string, data: Uint8Array, timeoutMs: number): Promise<Uint8Array> {
    this.#nextRequest += 1;
    const reply = `${this.#inbox}.${this.#nextRequest}`;
    return new Promise<Uint8Array>((resolve, reject) => {
      const timer = setTimeout(
        () => reject(new BusError('timeout', `No answer from ${subject} within ${timeoutMs} ms.`)),
        timeoutMs,
      );
      const end = () => {
        clearTimeout(timer);
        this.#requests.delete(reply);
      };
      this.#requests.set(reply, {
        answer: (answer) => {
          end();
          resolve(answer);
        },
        reject: (error) => {
          end();
          reject(error);
        },
      });
      try {
        if (this.publish(subject, data, reply) > 0) return;
        this.#requests.get(reply)?.reject(new BusError('no_responders', `Nobody answers ${subject}.`));
      } catch (error) {
        end();
        throw error;
      }
    }).finally(() => this.#requests.delete(reply));
  }

  close(): void {
    for (const subscription of this.#all) subscription.end();
    this.#all.clear();
    for (const { reject } of [...this.#requests.values()]) reject(new BusError('closed', 'The bus is closed.'));
  }

  /** All plain subscribers, and one of each queue, in turn. */
  #receivers(subject: string): BusSubscription[] {
    const found = this.#subscriptions.find(subject).filter(({ ended }) => !ended);
    if (!found.some(({ queue }) => queue !== undefined)) return found;
    const queues = new Map<string, BusSubscription[]>();
    const receivers: BusSubscription[] = [];
    for (const subscription of found) {
      if (subscription.queue === undefined) receivers.push(subscription);
      else queues.set(subscription.queue, [...(queues.get(subscription.queue) ?? []), subscription]);
    }
    this.#turn += 1;
    for (const members of queues.values()) {
      const chosen = members[this.#turn % members.length];
      if (chosen !== undefined) receivers.push(chosen);
    }
    return receivers;
  }
}

/** One subscriber and what waits for it. */
class BusSubscription {
  readonly queue: string | undefined;
  ended = false;
  readonly #handler: (message: BusMessage) => unknown;
  readonly #log: Log;
  #pending: BusMessage[] = [];
  #scheduled = false;
  #dropped = 0;

  constructor(handler: (message: BusMessage) => void, queue: string | undefined, log: Log) {
    this.#handler = handler;
    this.queue = queue;
    this.#log = log;
  }

  push(message: BusMessage): void {
    if (this.#pending.length >= MAX_PENDING) {
      this.#dropped += 1;
      return;
    }
    this.#pending.push(message);
    this.#schedule();
  }

  end(): void {
    this.ended = true;
    this.#pending = [];
  }

  /** Resolves once nothing waits. */
  async idle(): Promise<void> {
    while (this.#pending.length > 0 && !this.ended) await new Promise((resolve) => setImmediate(resolve));
  }

  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    setImmediate(() => {
      this.#scheduled = false;
      const batch = this.#pending.splice(0, SLICE);
      for (const message of batch) {
        if (this.ended) return;
        handle(this.#handler, message, this.#log);
      }
      if (this.#dropped > 0) {
        this.#log.warn({ dropped: this.#dropped }, 'a subscriber fell behind and lost messages');
        this.#dropped = 0;
      }
      if (this.#pending.length > 0) this.#schedule();
    });
  }
}

/** Hands a message to a subscriber; what that throws is told to the log. */
export function handle(handler: (message: BusMessage) => unknown, message: BusMessage, log: Log): void {
  const failed = (error: unknown) => log.error({ error: errorText(error, 'unknown') }, 'a subscriber threw');
  try {
    // An async function passes for a handler that returns nothing; its rejection must not end the process.
    const result = handler(message);
    if (result instanceof Promise) result.catch(failed);
  } catch (error) {
    failed(error);
  }
}
