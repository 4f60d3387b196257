import { setTimeout as sleep } from 'node:timers/promises';
import type { Msg } from '@nats-io/transport-node';
import type { SharedSecret } from '../../proto/auth/shared-secret.ts';
import {
  type Bus,
  BusError,
  type BusMessage,
  type ConsumerConfig,
  type StreamConfig,
  type StreamMessage,
} from '../../proto/ports/bus.ts';
import type { DeadLetterSink } from '../../proto/ports/bus-store.ts';
import type { SharedClock } from '../../proto/ports/clock.ts';
import type { Ending } from '../../proto/ports/ending.ts';
import type { Log } from '../../proto/ports/log.ts';
import { isInternal } from '../../proto/subjects.ts';
import { Consumer } from './consumer.ts';
import { handle } from './core.ts';
import { Envelopes, Refusals, type Seen, SeenMessages } from './envelopes.ts';
import { copied, loadSodium } from './frames.ts';
import { NatsAdmin } from './nats-admin.ts';
import { ADVISORY_CONSUMER, advisoryStream, keepGivenUp } from './nats-dead-letters.ts';
import { messageOf } from './nats-errors.ts';
import { type NatsAddress, NatsLink } from './nats-link.ts';
import { NatsPublisher } from './nats-publisher.ts';
import { NatsRequests } from './nats-requests.ts';
import { type NatsDelivery, NatsSource } from './nats-source.ts';
import { checkMessageId, checkName, checkPattern, checkSize, checkSubject } from './subjects.ts';

export type { NatsAddress } from './nats-link.ts';

interface NatsBusOptions {
  readonly address: NatsAddress;
  /** How the server's operator sees this connection. */
  readonly name: string;
  /** JWT_SECRET, which all processes have: what they say to each other is sealed with keys derived from it. */
  readonly secret: SharedSecret;
  /** Tells how old a message is. All processes should go by one; default: the machine's. */
  readonly clock?: SharedClock;
  /** Keeps what consumers give up. */
  readonly deadLetters: DeadLetterSink;
  readonly log: Log;
  /** Copies of streams in a cluster of servers. Default: 1 for new ones, others stay as they are. */
  readonly replicas?: number;
  /** How long an append waits for the server, ms. Default 10,000. */
  readonly patienceMs?: number;
}

/** A bus that may be away for a while. */
export interface NatsBus extends Bus {
  /** Why the broker cannot be reached, a sentence for operators; undefined while it is. */
  readonly problem: string | undefined;
  /** Whether the server turned us away the last time: waiting does not help. */
  readonly isRefused: boolean;
  /** Resolves with whether the connection stands, after at most `ms`, or at once when the server turned us away. */
  connected(ms: number): Promise<boolean>;
}

/**
 * The bus of many processes, over nats-server 2.9 or later with JetStream. Returns at once and connects by itself,
 * again and again; until then calls wait some seconds and reject `unavailable`, and `publish` drops. Subjects and names
 * that are none throw TypeError.
 */
export function natsBus(options: NatsBusOptions): NatsBus {
  return new NatsBusOnLink(options);
}

/** Longest pause of a consumer between two looks. */
const LOOK_MS = 5000;
/** How long the end of a subscription waits for what is on its way to it. */
const DRAIN_MS = 3000;
/** How long closing waits for acknowledgements that are under way. */
const CLOSE_MS = 5000;

class NatsBusOnLink implements NatsBus {
  readonly #options: NatsBusOptions;
  readonly #log: Log;
  readonly #link: NatsLink;
  readonly #admin: NatsAdmin;
  readonly #publisher: NatsPublisher;
  readonly #consumers = new Set<Consumer<NatsDelivery>>();
  readonly #collectors = new Map<string, Promise<void>>();
  readonly #requests: NatsRequests;
  readonly #envelopes: Envelopes;
  readonly #refusals: Refusals;
  #dropped = 0;
  #closed: Promise<void> | undefined;

  constructor(options: NatsBusOptions) {
    this.#options = options;
    this.#log = options.log;
    this.#link = new NatsLink(options.address, options.name, options.log);
    this.#envelopes = new Envelopes(options.secret, options.clock ?? { isShared: true, now: Date.now });
    this.#refusals = new Refusals(options.log);
    loadSodium().catch((error: unknown) =>
      options.log.warn({ error: messageOf(error) }, 'messages are sealed the slow way'),
    );
    this.#requests = new NatsRequests(this.#link, this.#envelopes, this.#refusals);
    this.#admin = new NatsAdmin(this.#link, options.log, options.replicas);
    this.#publisher = new NatsPublisher({
      link: this.#link,
      log: options.log,
      patienceMs: options.patienceMs ?? 10_000,
      findStream: (subject) => this.#admin.findStream(subject),
    });
    this.#link.onUp(() => {
      if (this.#dropped > 0) this.#log.warn({ dropped: this.#dropped }, 'messages were dropped while NATS was away');
      this.#dropped = 0;
    });
  }

  get problem(): string | undefined {
    return this.#link.problem;
  }

  get isRefused(): boolean {
    return this.#link.isRefused;
  }

  async connected(ms: number): Promise<boolean> {
    await this.#link.wait(ms).catch(() => undefined);
    return this.#link.isUp;
  }

  publish(subject: string, data: Uint8Array): void {
    this.#check();
    checkSubject(subject);
    checkSize(data);
    if (!this.#link.isUp) {
      this.#dropped += 1;
      return;
    }
    this.#link.connection.publish(subject, this.#envelopes.seal('core', subject, data));
  }

  subscribe(
    subject: string,
    handler: (message: BusMessage) => void,
    options: { queue?: string; drains?: boolean } = {},
  ): Ending {
    this.#check();
    checkPattern(subject);
    const log = this.#log.child({ subject });
    const seen = new SeenMessages();
    const subscription = this.#link.subscribe(
      subject,
      (message) => {
        const opened = this.#opened(message, seen);
        if (opened !== undefined) handle(handler, opened, log);
      },
      options.queue,
    );
    return {
      close: async () => {
        if (options.drains === true && this.#link.isUp)
          await Promise.race([subscription.drain(), sleep(DRAIN_MS, undefined, { ref: false })]);
        subscription.end();
      },
    };
  }

  // Not async: as `append`.
  request(subject: string, data: Uint8Array, timeoutMs: number): Promise<Uint8Array> {
    try {
      this.#check();
      checkSubject(subject);
      checkSize(data);
    } catch (error) {
      return Promise.reject(error);
    }
    // The caller may use its buffer again at once.
    return this.#requests.send(subject, copied(data), timeoutMs);
  }

  async ensureStream(config: StreamConfig): Promise<void> {
    this.#check();
    checkName(config.name);
    for (const pattern of config.subjects) checkPattern(pattern);
    await this.#admin.ensureStream(config);
  }

  // Not an async function: a promise more for each message is a tenth of its cost.
  append(
    subject: string,
    data: Uint8Array,
    options: { msgId?: string } = {},
  ): Promise<{ seq: number; duplicate: boolean }> {
    try {
      this.#check();
      checkSubject(subject);
      checkSize(data);
      if (options.msgId !== undefined) checkMessageId(options.msgId);
      const content = isInternal(subject) ? this.#envelopes.seal('kept', subject, data) : data;
      return this.#publisher.publish(subject, content, options.msgId);
    } catch (error) {
      return Promise.reject(error);
    }
  }

  async consume(
    stream: string,
    config: ConsumerConfig,
    handler: (batch: readonly StreamMessage[]) => Promise<void>,
  ): Promise<Ending> {
    this.#check();
    checkName(stream);
    checkName(config.durable);
    if (config.filter !== undefined) checkPattern(config.filter);
    const consuming = await this.#consume(stream, config, handler);
    try {
      await this.#collect(stream);
    } catch (error) {
      await consuming.close();
      throw error;
    }
    return consuming;
  }

  close(): Promise<void> {
    this.#closed ??= (async () => {
      const closed = new BusError('closed', 'The bus is closed.');
      this.#requests.close(closed);
      await Promise.all([...this.#consumers].map((consumer) => consumer.close()));
      if (this.#link.isUp) await Promise.race([this.#publisher.idle(), sleep(CLOSE_MS, undefined, { ref: false })]);
      this.#publisher.close();
      await this.#link.close();
    })();
    return this.#closed;
  }

  async #consume(
    stream: string,
    config: ConsumerConfig,
    handler: (batch: readonly StreamMessage[]) => Promise<void>,
  ): Promise<Ending> {
    const log = this.#log.child({ stream, durable: config.durable });
    let consumer: Consumer<NatsDelivery> | undefined;
    const source = new NatsSource({
      link: this.#link,
      admin: this.#admin,
      deadLetters: this.#options.deadLetters,
      stream,
      config,
      log,
      envelopes: this.#envelopes,
      refusals: this.#refusals,
      onNews: () => consumer?.wake(),
    });
    try {
      await source.begin();
      this.#check();
    } catch (error) {
      await source.close();
      throw error;
    }
    const begun = new Consumer({ ...config, source, stream, handler, log: this.#log, lookMs: LOOK_MS });
    consumer = begun;
    this.#consumers.add(begun);
    return {
      close: async () => {
        await begun.close();
        this.#consumers.delete(begun);
      },
    };
  }

  /** Collects the dead letters of a stream, once however many consume it. */
  #collect(stream: string): Promise<void> {
    let collecting = this.#collectors.get(stream);
    if (collecting === undefined) {
      collecting = (async () => {
        const advisories = advisoryStream(stream);
        await this.#admin.ensureStream(advisories);
        const keep = keepGivenUp(this.#admin, this.#options.deadLetters, this.#log, this.#envelopes);
        await this.#consume(advisories.name, ADVISORY_CONSUMER, keep);
      })();
      collecting.catch(() => this.#collectors.delete(stream));
      this.#collectors.set(stream, collecting);
    }
    return collecting;
  }

  /** The message without its envelope; undefined for what is not of the platform. */
  #opened({ subject, reply, data }: Msg, seen: Seen): BusMessage | undefined {
    const answer = reply === undefined || reply === '' ? undefined : reply;
    try {
      const content = this.#envelopes.open(subject, data, answer, seen);
      return answer === undefined ? { subject, data: content } : { subject, data: content, reply: answer };
    } catch (error) {
      this.#refusals.note(subject, error);
      return undefined;
    }
  }

  #check(): void {
    if (this.#closed !== undefined) throw new BusError('closed', 'The bus is closed.');
  }
}
