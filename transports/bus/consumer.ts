import { AckBatcher } from '../../lib/batching.ts';
import { errorText } from '../../lib/errors.ts';
import { backoffMs, InterruptiblePause, withTimeout } from '../../lib/waiting.ts';
import type { ConsumerConfig, StreamMessage } from '../../proto/ports/bus.ts';
import type { Delivery, Fetched } from '../../proto/ports/bus-store.ts';
import type { Log } from '../../proto/ports/log.ts';

/** Redelivery after a handler threw: 250 ms, doubling with each delivery, at most 30 s. */
const BACKOFF = { minMs: 250, maxMs: 30_000 };
/** Handlers that neither resolve nor reject; when so many hang, the consumer takes no more. */
const MAX_HANGING = 8;
/** Of a handler that takes several batches at once: most payload bytes that it has. One batch may have more. */
const MAX_BYTES_AT_ONCE = 8 << 20;

/** Where a consumer's messages come from and its answers go: the store, or a broker. */
export interface DeliverySource<D extends Delivery> {
  /** What may be handed out now, without waiting for more. */
  fetch(): Promise<Fetched<D>>;
  /** Done, whichever delivery of the message is meant. Resolves once it cannot be forgotten. */
  ack(deliveries: readonly D[]): Promise<void>;
  /** To be handed out again in `delayMs`. */
  nak(items: readonly { delivery: D; delayMs: number }[]): Promise<void>;
  /** Given up: a dead letter. */
  term(items: readonly { delivery: D; reason: string }[]): Promise<void>;
  /** Gives back what was fetched ahead. Called once, after the last handler. */
  close?(): Promise<void>;
}

interface ConsumerOptions<D extends Delivery> extends Pick<ConsumerConfig, 'durable' | 'ackWaitMs' | 'batchesAtOnce'> {
  readonly source: DeliverySource<D>;
  readonly log: Log;
  readonly stream: string;
  /** Longest pause between two looks when nobody calls `wake`. */
  readonly lookMs: number;
  readonly handler: (batch: readonly StreamMessage[]) => Promise<void>;
}

/** Fetches and hands out, one batch after the other, until closed. */
export class Consumer<D extends Delivery = Delivery> {
  readonly stream: string;
  readonly #options: ConsumerOptions<D>;
  readonly #log: Log;
  readonly #acks: AckBatcher<Acknowledgement<D>>;
  readonly #naks: AckBatcher<Acknowledgement<D> & { readonly delayMs: number }>;
  readonly #terms: AckBatcher<Acknowledgement<D> & { readonly reason: string }>;
  readonly #paths: AnswerPaths<D>;
  /** Batches in the handler's hands. */
  readonly #handling = new Map<Promise<void>, { readonly bytes: number; isLate: boolean }>();
  readonly #running: Promise<void>;
  readonly #pause = new InterruptiblePause();
  #closed = false;

  constructor(options: ConsumerOptions<D>) {
    const { source, stream, durable } = options;
    this.#options = options;
    this.stream = stream;
    this.#log = options.log.child({ stream, durable });
    this.#acks = this.#answers((items) => source.ack(items.map(({ delivery }) => delivery)));
    this.#naks = this.#answers((items) => source.nak(items));
    this.#terms = this.#answers((items) => source.term(items));
    this.#paths = {
      ack: (item) => this.#acks.add(item),
      nak: (item) => this.#naks.add(item),
      term: (item) => this.#terms.add(item),
    };
    this.#running = this.#run();
  }

  /** There may be something: look now. */
  wake(): void {
    this.#pause.wake();
  }

  /** Takes no more, waits for running handlers. Must not be awaited inside a handler. */
  async close(): Promise<void> {
    this.#closed = true;
    this.wake();
    await this.#running;
    await Promise.all(this.#handling.keys());
    await Promise.all([this.#acks.idle(), this.#naks.idle(), this.#terms.idle()]);
    await this.#options.source.close?.();
  }

  async #run(): Promise<void> {
    const { source, lookMs } = this.#options;
    let failures = 0;
    while (!this.#closed) {
      this.#pause.reset();
      try {
        const { deliveries, nextDueMs, more } = await source.fetch();
        failures = 0;
        if (deliveries.length > 0) await this.#handOut(deliveries);
        else if (!more) await this.#rest(Math.min(lookMs, nextDueMs ?? lookMs) + 1);
      } catch (error) {
        failures += 1;
        this.#log.warn({ error: errorText(error, 'unknown') }, 'cannot fetch from the stream');
        this.#pause.reset();
        await this.#rest(Math.min(lookMs, 100 * 2 ** Math.min(failures, 10)));
      }
    }
  }

  async #handOut(deliveries: readonly D[]): Promise<void> {
    const settled = new Set<number>();
    if (this.#closed) {
      await this.#giveBack(deliveries, settled, () => 0);
      return;
    }
    const messages = deliveries.map((delivery) => new DeliveredMessage(delivery, settled, this.#paths));
    const handling = this.#handle(messages, deliveries, settled).finally(() => this.#handling.delete(handling));
    const bytes = deliveries.reduce((sum, { data }) => sum + data.byteLength, 0);
    this.#handling.set(handling, { bytes, isLate: false });
    await this.#untilRoom();
  }

  /** Past the ack wait the messages are others' to handle; a handler that hangs must not stop the stream. */
  async #untilRoom(): Promise<void> {
    const { batchesAtOnce = 1 } = this.#options;
    for (;;) {
      const inTime = [...this.#handling.values()].filter(({ isLate }) => !isLate);
      const bytes = inTime.reduce((sum, batch) => sum + batch.bytes, 0);
      const isFull = inTime.length >= batchesAtOnce || bytes >= MAX_BYTES_AT_ONCE;
      const hanging = this.#handling.size - inTime.length;
      if (!isFull && (hanging < MAX_HANGING || this.#closed)) return;
      if (await this.#untilDone(Promise.race(this.#handling.keys()))) continue;
      for (const batch of inTime) batch.isLate = true;
      if (inTime.length > 0) this.#log.warn({ batches: inTime.length }, 'a handler takes longer than the ack wait');
    }
  }

  async #handle(messages: readonly StreamMessage[], deliveries: readonly D[], settled: Set<number>) {
    try {
      await this.#options.handler(messages);
    } catch (error) {
      this.#log.warn(
        { error: errorText(error, 'unknown'), messages: messages.length },
        'a handler failed; redelivering',
      );
      await this.#giveBack(deliveries, settled, (count) => backoffMs(count - 1, BACKOFF));
    }
  }

  async #giveBack(deliveries: readonly D[], settled: Set<number>, delayMs: (count: number) => number) {
    const open = deliveries.filter(({ seq }) => !settled.has(seq));
    const naks = open.map((delivery) =>
      this.#naks.add({ delivery, settled, delayMs: delayMs(delivery.deliveryCount) }),
    );
    const results = await Promise.allSettled(naks);
    // Not told: they come again after the ack wait.
    if (results.some(({ status }) => status === 'rejected')) this.#log.warn({}, 'could not give messages back');
  }

  #answers<I extends Acknowledgement<D>>(send: (items: readonly I[]) => Promise<void>): AckBatcher<I> {
    return new AckBatcher(async (items) => {
      try {
        await send(items);
      } catch (error) {
        for (const { delivery, settled } of items) settled.delete(delivery.seq);
        throw error;
      }
      // There is room for more.
      this.wake();
    });
  }

  /** Resolves with whether `work` ended within the ack wait, or the consumer is closing. */
  #untilDone(work: Promise<void>): Promise<boolean> {
    const done = work.then(() => true);
    return withTimeout(done, this.#options.ackWaitMs, () => false);
  }

  async #rest(ms: number): Promise<void> {
    if (!this.#closed) await this.#pause.wait(ms);
  }
}

/** How a message's answers leave. */
interface AnswerPaths<D extends Delivery> {
  ack(item: Acknowledgement<D>): Promise<void>;
  nak(item: Acknowledgement<D> & { readonly delayMs: number }): Promise<void>;
  term(item: Acknowledgement<D> & { readonly reason: string }): Promise<void>;
}

/** An answer: to what, and where to take note that it could not be given. */
interface Acknowledgement<D extends Delivery> {
  readonly delivery: D;
  readonly settled: Set<number>;
}

/** A message in a handler's hands. The first answer counts; one that could not be stored may be given again. */
class DeliveredMessage<D extends Delivery> implements StreamMessage {
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
