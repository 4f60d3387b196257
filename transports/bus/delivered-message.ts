import type { StreamMessage } from '../../proto/ports/bus.ts';
import type { Delivery } from '../../proto/ports/bus-store.ts';

/** How a message's answers leave. */
export interface AnswerPaths<D extends Delivery> {
  ack(item: Acknowledgement<D>): Promise<void>;
  nak(item: Acknowledgement<D> & { readonly delayMs: number }): Promise<void>;
  term(item: Acknowledgement<D> & { readonly reason: string }): Promise<void>;
}

/** An answer: to what, and where to take note that it could not be given. */
export interface Acknowledgement<D extends Delivery> {
  readonly delivery: D;
  readonly settled: Set<number>;
}

/** A message in a handler's hands. The first answer counts; one that could not be stored may be given again. */
export class DeliveredMessage<D extends Delivery> implements StreamMessage {
  readonly seq: number;
  readonly subject: string;
  readonly data: Uint8Array;
  readonly deliveryCount: number;
  readonly storedAt: number;
  readonly #delivery: D;
  readonly #settled: Set<number>;
  readonly #paths: AnswerPaths<D>;

  constructor(delivery: D, settled: Set<number>, paths: AnswerPaths<D>) {
    this.seq = delivery.seq;
    this.subject = delivery.subject;
    this.data = delivery.data;
    this.deliveryCount = delivery.deliveryCount;
    this.storedAt = delivery.storedAt;
    this.#delivery = delivery;
    this.#settled = settled;
    this.#paths = paths;
  }

  get msgId(): string | undefined {
    return this.#delivery.msgId;
  }

  ack(): Promise<void> {
    return this.#settles() ? this.#paths.ack({ delivery: this.#delivery, settled: this.#settled }) : Promise.resolve();
  }

  nak(delayMs = 0): Promise<void> {
    if (!this.#settles()) return Promise.resolve();
    return this.#paths.nak({ delivery: this.#delivery, settled: this.#settled, delayMs: Math.max(0, delayMs) });
  }

  term(reason: string): Promise<void> {
    if (!this.#settles()) return Promise.resolve();
    return this.#paths.term({ delivery: this.#delivery, settled: this.#settled, reason });
  }

  #settles(): boolean {
    if (this.#settled.has(this.seq)) return false;
    this.#settled.add(this.seq);
    return true;
  }
}
