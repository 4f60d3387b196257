import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Msg } from '@nats-io/transport-node';
import { BusError, type ConsumerConfig } from '../../proto/ports/bus.ts';
import type { DeadLetterSink, Delivery, Fetched } from '../../proto/ports/bus-store.ts';
import type { Log } from '../../proto/ports/log.ts';
import { isInternal } from '../../proto/subjects.ts';
import type { DeliverySource } from './consumer.ts';
import type { Envelopes, Refusals } from './envelopes.ts';
import { copied } from './frames.ts';
import type { NatsAdmin } from './nats-admin.ts';
import { asBusError, type LinkSubscription, messageOf, type NatsLink } from './nats-link.ts';

/** Most payload bytes asked for at once. */
const MAX_PULL_BYTES = 8 << 20;
/** How long a pull stays open, and how often the server says that it still is, ms. */
const PULL_MS = 30_000;
const HEARTBEAT_MS = 5000;
/** How long answers wait for the connection, and for the server to have them, ms. */
const ANSWER_MS = 10_000;

/** Encoded once: it is sent for every message. */
const ACK = Buffer.from('+ACK');

/** A message as delivered, with where its answer goes. */
export interface NatsDelivery extends Delivery {
  readonly reply: string;
  /** When the stream was made that has it. */
  readonly streamCreated: string;
  readonly receivedAt: number;
}

interface NatsSourceOptions {
  readonly link: NatsLink;
  readonly admin: NatsAdmin;
  readonly deadLetters: DeadLetterSink;
  readonly stream: string;
  readonly config: ConsumerConfig;
  readonly log: Log;
  readonly envelopes: Envelopes;
  readonly refusals: Refusals;
  /** Something arrived, or the connection stands again. */
  readonly onNews: () => void;
}

/**
 * Pulls a durable consumer's messages, one batch ahead of the handler. Everything it does survives a lost connection, a
 * server that comes back without its store, and a stream or consumer that somebody deleted: those are made again.
 */
export class NatsSource implements DeliverySource<NatsDelivery> {
  readonly #options: NatsSourceOptions;
  readonly #inbox = `_INBOX.${randomBytes(12).toString('hex')}`;
  readonly #subscription: LinkSubscription;
  readonly #connected = () => this.#distrust();
  #queue: NatsDelivery[] = [];
  /** Messages that the open pull may still bring; 0 when none is open. */
  #expected = 0;
  #pull = 0;
  #heardAt = 0;
  /** Whether the consumer may be gone from the server. */
  #doubted = true;
  #checking: Promise<void> | undefined;
  #streamCreated = '';
  #closed = false;

  constructor(options: NatsSourceOptions) {
    this.#options = options;
    this.#subscription = options.link.subscribe(`${this.#inbox}.*`, (message) => this.#receive(message));
    options.link.onUp(this.#connected);
  }

  /** Makes the consumer. Rejects with BusError as `Bus.consume`. */
  async begin(): Promise<void> {
    await this.#check();
  }

  async fetch(): Promise<Fetched<NatsDelivery>> {
    if (this.#expected > 0 && performance.now() - this.#heardAt > 2 * HEARTBEAT_MS + 1000) this.#distrust();
    if (this.#doubted && this.#options.link.isUp) await this.#check();
    const deliveries = this.#take();
    this.#ask();
    return { deliveries, nextDueMs: undefined, more: false };
  }

  async ack(deliveries: readonly NatsDelivery[]): Promise<void> {
    await this.#answer(deliveries, () => ACK);
  }

  async nak(items: readonly { delivery: NatsDelivery; delayMs: number }[]): Promise<void> {
    const delays = new Map(items.map(({ delivery, delayMs }) => [delivery, delayMs]));
    await this.#answer([...delays.keys()], (delivery) => {
      const delay = delays.get(delivery) ?? 0;
      return delay === 0 ? '-NAK' : `-NAK ${JSON.stringify({ delay: Math.round(delay * 1e6) })}`;
    });
  }

  async term(items: readonly { delivery: NatsDelivery; reason: string }[]): Promise<void> {
    const { stream, config, deadLetters } = this.#options;
    // First what must not be lost: when the server does not hear of it, the message comes again and is given up again.
    await deadLetters.add(
      items.map(({ delivery: { seq, storedAt, subject, data, msgId, deliveryCount }, reason }) => ({
        stream,
        durable: config.durable,
        seq,
        storedAt,
        subject,
        data,
        msgId,
        deliveries: deliveryCount,
        reason,
      })),
    );
    await this.#answer(
      items.map(({ delivery }) => delivery),
      () => '+TERM',
    );
  }

  /** Gives back what was pulled and not handed out. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#options.link.offUp(this.#connected);
    await this.#subscription.drain();
    const left = this.#queue.map((delivery) => ({ delivery, delayMs: 0 }));
    this.#queue = [];
    if (left.length === 0 || !this.#options.link.isUp) return;
    // Not told: they come again after the ack wait.
    await this.nak(left).catch((error: unknown) =>
      this.#options.log.warn({ error: messageOf(error) }, 'could not give messages back'),
    );
  }

  #distrust(): void {
    this.#doubted = true;
    this.#expected = 0;
    this.#options.onNews();
  }

  #check(): Promise<void> {
    this.#checking ??= (async () => {
      const { admin, stream, config, log } = this.#options;
      const { streamCreated } = await admin.ensureConsumer(stream, config, this.#streamCreated !== '');
      if (this.#streamCreated !== '' && streamCreated !== this.#streamCreated) {
        log.warn({ stream }, 'the stream was made anew: what it had is lost');
        this.#queue = [];
      }
      this.#streamCreated = streamCreated;
      this.#doubted = false;
    })().finally(() => {
      this.#checking = undefined;
    });
    return this.#checking;
  }

  #take(): NatsDelivery[] {
    const oldest = performance.now() - this.#options.config.ackWaitMs;
    // What waited here for longer than the ack wait is somebody else's by now, or comes again.
    const deliveries = this.#queue.filter(({ receivedAt }) => receivedAt > oldest);
    this.#queue = [];
    return deliveries;
  }

  #ask(): void {
    const { link, stream, config } = this.#options;
    if (this.#expected > 0 || this.#closed || this.#doubted || !link.isUp) return;
    const room = config.maxAckPending - this.#queue.length;
    if (room <= 0) return;
    this.#pull += 1;
    this.#expected = room;
    this.#heardAt = performance.now();
    const request = {
      batch: room,
      max_bytes: MAX_PULL_BYTES,
      expires: PULL_MS * 1e6,
      idle_heartbeat: HEARTBEAT_MS * 1e6,
    };
    try {
      link.connection.publish(`$JS.API.CONSUMER.MSG.NEXT.${stream}.${config.durable}`, JSON.stringify(request), {
        reply: `${this.#inbox}.${this.#pull}`,
      });
    } catch {
      // The connection has just gone: its return makes us ask again.
      this.#expected = 0;
    }
  }

  #receive(message: Msg): void {
    this.#heardAt = performance.now();
    const reply = readReply(message.reply);
    if (reply === undefined) {
      this.#status(message);
      return;
    }
    const data = this.#contentOf(message);
    if (data === undefined) this.#drop(reply);
    else this.#queue.push(new Received(message, data, reply, this.#streamCreated, this.#heardAt));
    if (this.#expected > 0) {
      this.#expected -= 1;
      if (this.#expected === 0) this.#ask();
    }
    this.#options.onNews();
  }

  /** What only the platform may say is sealed; undefined when it is not. */
  #contentOf({ subject, data }: Msg): Uint8Array | undefined {
    if (!isInternal(subject)) return copied(data);
    const { envelopes, refusals } = this.#options;
    try {
      return envelopes.openKept(subject, data);
    } catch (error) {
      refusals.note(subject, error);
      return undefined;
    }
  }

  /** Not kept as a dead letter, which an operator might publish again as the platform's own word. */
  #drop({ reply }: Reply): void {
    const { link } = this.#options;
    if (link.isUp) link.connection.publish(reply, '+TERM');
  }

  /** What the server says about a pull (NATS ADR-37). */
  #status(message: Msg): void {
    const code = message.headers?.code ?? 0;
    const description = message.headers?.description ?? '';
    // A heartbeat; or news of an earlier pull.
    if (code === 100 || message.subject !== `${this.#inbox}.${this.#pull}`) return;
    this.#expected = 0;
    // 404 and 408: the pull is over. 409 also tells of one that is full in bytes, or that the server goes.
    if (code === 503 || (code === 409 && /deleted|leadership|shutdown/i.test(description))) {
      this.#options.log.warn({ code, description }, 'the consumer does not answer');
      this.#distrust();
      return;
    }
    if (code === 409 && !/maxbytes/i.test(description)) {
      this.#options.log.warn({ code, description }, 'the server ended a pull');
      // It is asked again when the consumer looks next, not at once and for ever.
      return;
    }
    this.#ask();
  }

  /** Sends an answer for each delivery and waits until the server has them. */
  async #answer(
    deliveries: readonly NatsDelivery[],
    answer: (delivery: NatsDelivery) => Uint8Array | string,
  ): Promise<void> {
    const { link } = this.#options;
    const deadline = performance.now() + ANSWER_MS;
    for (;;) {
      try {
        const connection = await link.wait(Math.max(0, deadline - performance.now()));
        // Numbers of a stream that is gone would name other messages of the one in its place.
        if (this.#doubted && !this.#closed) await this.#check();
        for (const delivery of deliveries) {
          if (delivery.streamCreated === this.#streamCreated) connection.publish(delivery.reply, answer(delivery));
        }
        await connection.flush();
        if (link.isUp) return;
      } catch (error) {
        if (performance.now() >= deadline || link.isClosed) throw asBusError(error, 'take an acknowledgement');
        // Lost on the way: an answer may be given twice.
        if (link.isUp) await sleep(100);
      }
      if (performance.now() >= deadline)
        throw new BusError('unavailable', link.problem ?? 'NATS takes no acknowledgements.');
    }
  }
}

interface Reply {
  readonly reply: string;
  readonly seq: number;
  readonly deliveryCount: number;
  readonly storedAt: number;
}

class Received implements NatsDelivery {
  readonly subject: string;
  readonly data: Uint8Array;
  readonly reply: string;
  readonly seq: number;
  readonly deliveryCount: number;
  readonly storedAt: number;
  readonly streamCreated: string;
  readonly receivedAt: number;
  readonly #message: Msg;

  constructor(
    message: Msg,
    data: Uint8Array,
    { reply, seq, deliveryCount, storedAt }: Reply,
    streamCreated: string,
    receivedAt: number,
  ) {
    this.subject = message.subject;
    this.data = data;
    this.reply = reply;
    this.seq = seq;
    this.deliveryCount = deliveryCount;
    this.storedAt = storedAt;
    this.streamCreated = streamCreated;
    this.receivedAt = receivedAt;
    this.#message = message;
  }

  /** Read when asked for: parsing the headers of a message costs as much as all else about it. */
  get msgId(): string | undefined {
    return this.#message.headers?.get('Nats-Msg-Id') || undefined;
  }
}

/**
 * Reads `$JS.ACK.<stream>.<consumer>.<delivered>.<stream seq>.<consumer seq>.<time, ns>.<pending>`, or the longer form
 * with domain and account before the stream (NATS ADR-15).
 */
function readReply(reply: string | undefined): Reply | undefined {
  if (reply === undefined || !reply.startsWith('$JS.ACK.')) return undefined;
  const parts = reply.split('.');
  const at = parts.length >= 11 ? 6 : 4;
  const time = parts[at + 3];
  if (time === undefined) return undefined;
  // The last six digits are below a millisecond.
  return { reply, deliveryCount: Number(parts[at]), seq: Number(parts[at + 1]), storedAt: Number(time.slice(0, -6)) };
}
