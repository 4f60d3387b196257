import { setTimeout as sleep } from 'node:timers/promises';
import { errorText } from '../../lib/errors.ts';
import {
  type Bus,
  BusError,
  type BusMessage,
  type ConsumerConfig,
  type StreamConfig,
  type StreamMessage,
} from '../../proto/ports/bus.ts';
import type { Delivery, NewMessage, Stored, StreamStore } from '../../proto/ports/bus-store.ts';
import type { Ending } from '../../proto/ports/ending.ts';
import type { Log } from '../../proto/ports/log.ts';
import { Batcher } from './batcher.ts';
import { Consumer, type DeliverySource } from './consumer.ts';
import { Core } from './core.ts';
import { checkMessageId, checkName, checkPattern, checkSize, checkSubject, matches } from './subjects.ts';

const batch = { items: 500, bytes: 4 << 20, waitingBytes: 64 << 20 };

interface EmbeddedBusOptions {
  readonly store: StreamStore;
  readonly log: Log;
  /** How often consumers look although nothing woke them. Default 5,000 ms. */
  readonly lookMs?: number;
  /** How often what is too old is removed. Default 30,000 ms. */
  readonly trimMs?: number;
}

/**
 * The bus of one process: core messages stay in it, streams are in the store, shared by all processes on
 * it. `close` leaves the store open. Subjects and names that are none throw TypeError.
 */
export function embeddedBus(options: EmbeddedBusOptions): Bus {
  return new EmbeddedBus(options);
}

class EmbeddedBus implements Bus {
  readonly #store: StreamStore;
  readonly #log: Log;
  readonly #lookMs: number;
  readonly #core: Core;
  readonly #consumers = new Set<Consumer>();
  readonly #appends = new Map<string, Batcher<NewMessage, Stored>>();
  readonly #ending = new AbortController();
  readonly #trimming: Promise<void>;
  #listening: Ending | undefined;
  #streams: readonly StreamConfig[] = [];
  /** The readings of the streams that began, and the newest of those that were answered. */
  #asked = 0;
  #answered = 0;
  #reading: Promise<void> | undefined;
  #closed: Promise<void> | undefined;

  constructor({ store, log, lookMs = 5000, trimMs = 30_000 }: EmbeddedBusOptions) {
    this.#store = store;
    this.#log = log;
    this.#lookMs = lookMs;
    this.#core = new Core(log);
    this.#trimming = this.#trim(trimMs);
  }

  publish(subject: string, data: Uint8Array): void {
    this.#check();
    checkSize(data);
    this.#core.publish(subject, data);
  }

  subscribe(
    subject: string,
    handler: (message: BusMessage) => void,
    options: { queue?: string; drains?: boolean } = {},
  ): Ending {
    this.#check();
    return this.#core.subscribe(subject, handler, options);
  }

  async request(subject: string, data: Uint8Array, timeoutMs: number): Promise<Uint8Array> {
    this.#check();
    checkSize(data);
    return this.#core.request(subject, data, timeoutMs);
  }

  async ensureStream(config: StreamConfig): Promise<void> {
    this.#check();
    checkName(config.name);
    for (const pattern of config.subjects) checkPattern(pattern);
    await this.#store.ensureStream(config);
    await this.#readStreams();
  }

  async append(
    subject: string,
    data: Uint8Array,
    options: { msgId?: string } = {},
  ): Promise<{ seq: number; duplicate: boolean }> {
    this.#check();
    checkSubject(subject);
    checkSize(data);
    const { msgId } = options;
    if (msgId !== undefined) checkMessageId(msgId);
    const stream = await this.#streamOf(subject);
    this.#check();
    const stored = await this.#batcher(stream).add({ subject, data: new Uint8Array(data), msgId }, data.byteLength);
    if (!stored.duplicate) this.#wake(stream);
    return stored;
  }

  async consume(
    stream: string,
    config: ConsumerConfig,
    handler: (batch: readonly StreamMessage[]) => Promise<void>,
  ): Promise<Ending> {
    this.#check();
    checkName(config.durable);
    if (config.filter !== undefined) checkPattern(config.filter);
    const { durable, filter, ackWaitMs, maxDeliver, maxAckPending } = config;
    await this.#store.ensureConsumer(stream, { durable, filter, ackWaitMs, maxDeliver, maxAckPending });
    this.#check();
    this.#listening ??= this.#store.onAppend((appended) => this.#wake(appended));
    const source = storeSource(this.#store, stream, durable);
    const consumer = new Consumer({ ...config, source, stream, handler, log: this.#log, lookMs: this.#lookMs });
    this.#consumers.add(consumer);
    return {
      close: async () => {
        await consumer.close();
        this.#consumers.delete(consumer);
      },
    };
  }

  close(): Promise<void> {
    this.#closed ??= (async () => {
      this.#ending.abort();
      this.#core.close();
      // At once: what a handler ends meanwhile must not make it take more.
      const consumers = [...this.#consumers].map((consumer) => consumer.close());
      await this.#listening?.close();
      await Promise.all(consumers);
      await Promise.all([...this.#appends.values()].map((batcher) => batcher.idle()));
      await this.#trimming;
    })();
    return this.#closed;
  }

  #check(): void {
    if (this.#closed !== undefined) throw new BusError('closed', 'The bus is closed.');
  }

  #wake(stream: string): void {
    for (const consumer of this.#consumers) {
      if (stream === '' || consumer.stream === stream) consumer.wake();
    }
  }

  async #streamOf(subject: string): Promise<string> {
    const known = this.#find(subject);
    if (known !== undefined) return known;
    // Another process may have made it since. Who asks meanwhile waits for the same answer: appends keep their order.
    this.#reading ??= this.#readStreams().finally(() => {
      this.#reading = undefined;
    });
    await this.#reading;
    const found = this.#find(subject);
    if (found === undefined) throw new BusError('no_stream', `No stream takes ${subject}.`);
    return found;
  }

  /** An older answer that comes later does not stand for a newer one. */
  async #readStreams(): Promise<void> {
    const turn = ++this.#asked;
    const streams = await this.#store.streams();
    if (turn < this.#answered) return;
    this.#answered = turn;
    this.#streams = streams;
  }

  #find(subject: string): string | undefined {
    return this.#streams.find(({ subjects }) => subjects.some((pattern) => matches(pattern, subject)))?.name;
  }

  #batcher(stream: string): Batcher<NewMessage, Stored> {
    let batcher = this.#appends.get(stream);
    if (batcher === undefined) {
      batcher = new Batcher((messages) => this.#store.append(stream, messages), batch);
      this.#appends.set(stream, batcher);
    }
    return batcher;
  }

  /** Removes what is too old, step by step, and hears of streams that others changed. */
  async #trim(everyMs: number): Promise<void> {
    const { signal } = this.#ending;
    for (;;) {
      // Processes on one store take their turns at different times.
      const pause = everyMs * (0.75 + Math.random() / 2);
      await sleep(pause, undefined, { signal, ref: false }).catch(() => undefined);
      if (signal.aborted) return;
      try {
        while (!signal.aborted && (await this.#store.trim())) await sleep(10);
        await this.#readStreams();
      } catch (error) {
        this.#log.warn({ error: errorText(error, 'unknown') }, 'cannot trim streams');
      }
    }
  }
}

/** A consumer's deliveries out of the store. */
function storeSource(store: StreamStore, stream: string, durable: string): DeliverySource<Delivery> {
  return {
    fetch: () => store.fetch(stream, durable),
    ack: (deliveries) =>
      store.ack(
        stream,
        durable,
        deliveries.map(({ seq }) => seq),
      ),
    nak: (items) =>
      store.nak(
        stream,
        durable,
        items.map(({ delivery: { seq, deliveryCount }, delayMs }) => ({ seq, deliveryCount, delayMs })),
      ),
    term: (items) =>
      store.term(
        stream,
        durable,
        items.map(({ delivery: { seq, deliveryCount }, reason }) => ({ seq, deliveryCount, reason })),
      ),
  };
}
