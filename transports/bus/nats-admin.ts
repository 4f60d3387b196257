import { setTimeout as sleep } from 'node:timers/promises';
import {
  AckPolicy,
  type ConsumerInfo,
  DeliverPolicy,
  DiscardPolicy,
  JetStreamApiCodes,
  JetStreamApiError,
  type JetStreamManager,
  jetstreamManager,
  type StreamConfig as NatsStreamConfig,
  ReplayPolicy,
  RetentionPolicy,
  StorageType,
  type StoredMsg,
  type StreamInfo,
} from '@nats-io/jetstream';
import { nanos } from '@nats-io/transport-node';
import { z } from 'zod';
import { jsonOf } from '../../lib/input.ts';
import { BusError, type ConsumerConfig, type StreamConfig, type StreamMessage } from '../../proto/ports/bus.ts';
import type { DeadLetterSink } from '../../proto/ports/bus-store.ts';
import type { Log } from '../../proto/ports/log.ts';
import { isInternal } from '../../proto/subjects.ts';
import type { Envelopes } from './envelopes.ts';
import { asBusError, messageOf, type NatsLink } from './nats-link.ts';
import { matches } from './subjects.ts';

/** How long to wait for the connection, and then for an answer of the server's API, ms. */
const API_MS = 5000;

/** Name of the server's error for a stream that exists with other settings (nats-server's errors.json). */
const STREAM_EXISTS = 10058;

/**
 * How long what was lost is left alone before it is made again, ms. A server tells that it deletes something while it
 * still removes the files: made again too early they get mixed up (seen with 2.9: "directory not empty", and a consumer
 * that delivers nothing).
 */
const SETTLE_MS = 500;

/** What a stream must be; the rest is the operator's. */
type Wanted = Partial<NatsStreamConfig> & Pick<NatsStreamConfig, 'name' | 'subjects'>;

/** Streams and consumers on the server: made when missing, changed when they differ, made again when lost. */
export class NatsAdmin {
  readonly #link: NatsLink;
  readonly #log: Log;
  readonly #replicas: number | undefined;
  /** Streams this process needs. */
  readonly #known = new Map<string, Wanted>();
  readonly #restoring = new Map<string, Promise<StreamInfo>>();

  constructor(link: NatsLink, log: Log, replicas: number | undefined) {
    this.#link = link;
    this.#log = log;
    this.#replicas = replicas;
  }

  /**
   * Makes the stream or changes it to these settings; what they do not name stays as it is. It is remembered, and made
   * again when it turns out to be gone.
   */
  async ensureStream(config: StreamConfig): Promise<void> {
    const wanted: Wanted = {
      name: config.name,
      subjects: [...config.subjects],
      retention: RetentionPolicy.Limits,
      storage: StorageType.File,
      discard: DiscardPolicy.Old,
      max_msgs: config.maxMessages,
      max_bytes: config.maxBytes,
      max_age: nanos(config.maxAgeMs),
      duplicate_window: nanos(config.duplicateWindowMs),
    };
    this.#known.set(wanted.name, wanted);
    await this.#restore(wanted, 0);
  }

  /**
   * Makes the consumer or changes it to these settings; its position stays. Makes the stream
   * too when it is one of ours. Resolves with when the stream was made: numbers of its messages mean nothing in a later
   * one. `wasThere`: it was made before, so that if it is missing somebody has just deleted it.
   */
  async ensureConsumer(stream: string, config: ConsumerConfig, wasThere: boolean): Promise<{ streamCreated: string }> {
    return this.#call(`make the consumer ${config.durable}`, async (manager) => {
      const created = await this.#streamCreated(manager, stream);
      const find = () =>
        orUndefined(JetStreamApiCodes.ConsumerNotFound, manager.consumers.info(stream, config.durable));
      let found = await find();
      if (found === undefined && wasThere) {
        await sleep(SETTLE_MS);
        found = await find();
      }
      const settings = {
        ack_wait: nanos(config.ackWaitMs),
        max_deliver: config.maxDeliver,
        max_ack_pending: config.maxAckPending,
        ...(config.filter === undefined ? {} : { filter_subject: config.filter }),
      };
      if (found === undefined) {
        this.#log.info({ stream, durable: config.durable }, 'making a consumer');
        await manager.consumers.add(stream, {
          durable_name: config.durable,
          ack_policy: AckPolicy.Explicit,
          deliver_policy: DeliverPolicy.All,
          replay_policy: ReplayPolicy.Instant,
          ...settings,
        });
      } else if (differs(found, settings) || found.config.filter_subject !== config.filter) {
        await manager.consumers.update(stream, config.durable, settings);
      }
      return { streamCreated: created };
    });
  }

  /** Whether a stream takes `subject`, after making one of ours that was lost. */
  async findStream(subject: string): Promise<boolean> {
    const ours = [...this.#known.values()].find(({ subjects }) =>
      subjects.some((pattern) => matches(pattern, subject)),
    );
    if (ours !== undefined) {
      await this.#restore(ours, SETTLE_MS);
      return true;
    }
    return this.#call('find a stream', async (manager) => {
      try {
        return (await manager.streams.find(subject)) !== '';
      } catch (error) {
        if (error instanceof Error && /no stream matches|stream not found/.test(error.message)) return false;
        throw error;
      }
    });
  }

  /** A message by its number; undefined when the stream or the message is gone. */
  async message(stream: string, seq: number): Promise<StoredMsg | undefined> {
    return this.#call('read a message', async (manager) => {
      try {
        return (await manager.streams.getMessage(stream, { seq })) ?? undefined;
      } catch (error) {
        const gone: number[] = [JetStreamApiCodes.NoMessageFound, JetStreamApiCodes.StreamNotFound];
        if (error instanceof JetStreamApiError && gone.includes(error.code)) return undefined;
        throw error;
      }
    });
  }

  async #streamCreated(manager: JetStreamManager, stream: string): Promise<string> {
    const known = this.#known.get(stream);
    const found = await orUndefined(JetStreamApiCodes.StreamNotFound, manager.streams.info(stream));
    if (found !== undefined) return String(found.created);
    if (known === undefined) throw new BusError('no_stream', `There is no stream ${stream}.`);
    return String((await this.#restore(known, SETTLE_MS)).created);
  }

  /** One at a time for each stream, however many ask. */
  #restore(wanted: Wanted, afterMs: number): Promise<StreamInfo> {
    let running = this.#restoring.get(wanted.name);
    if (running === undefined) {
      running = this.#make(wanted, afterMs).finally(() => this.#restoring.delete(wanted.name));
      this.#restoring.set(wanted.name, running);
    }
    return running;
  }

  #make(wanted: Wanted, afterMs: number): Promise<StreamInfo> {
    return this.#call(`make the stream ${wanted.name}`, async (manager) => {
      const replicas = this.#replicas === undefined ? {} : { num_replicas: this.#replicas };
      const settings = { ...wanted, ...replicas };
      for (let settled = afterMs === 0; ; settled = true) {
        const found = await orUndefined(JetStreamApiCodes.StreamNotFound, manager.streams.info(wanted.name));
        if (found !== undefined) {
          if (!differs(found, settings)) return found;
          this.#log.info({ stream: wanted.name }, 'changing the settings of a stream');
          return await manager.streams.update(wanted.name, settings);
        }
        if (!settled) {
          await sleep(afterMs);
          continue;
        }
        this.#log.info({ stream: wanted.name }, 'making a stream');
        // Another process may make it at the same time, from another version with other settings.
        const made = await orUndefined(STREAM_EXISTS, manager.streams.add(settings));
        if (made !== undefined) return made;
      }
    });
  }

  async #call<T>(doing: string, work: (manager: JetStreamManager) => Promise<T>): Promise<T> {
    try {
      const connection = await this.#link.wait(API_MS);
      return await work(await jetstreamManager(connection, { checkAPI: false, timeout: API_MS }));
    } catch (error) {
      this.#link.check();
      const known = asBusError(error, doing);
      if (known instanceof BusError && known.code === 'refused')
        this.#log.error({ error: messageOf(error) }, known.message);
      throw known;
    }
  }
}

/** Whether what is found has another value for one of the settings. */
function differs(found: StreamInfo | ConsumerInfo, settings: Readonly<Record<string, unknown>>): boolean {
  const present = new Map<string, unknown>(Object.entries(found.config));
  return Object.entries(settings).some(([key, value]) => {
    return JSON.stringify(present.get(key)) !== JSON.stringify(value);
  });
}

async function orUndefined<T>(code: number, work: Promise<T>): Promise<T | undefined> {
  try {
    return await work;
  } catch (error) {
    if (error instanceof JetStreamApiError && error.code === code) return undefined;
    throw error;
  }
}

/**
 * The server tells once, to whoever listens, that a message was delivered too often (an advisory). So that none is
 * missed while no process runs, a stream of its own keeps what is told about `stream`.
 */
export function advisoryStream(stream: string): StreamConfig {
  return {
    name: `${stream}_GIVEN_UP`,
    subjects: [`$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.${stream}.>`],
    maxMessages: 100_000,
    maxBytes: 64 << 20,
    maxAgeMs: 7 * 86_400_000,
    duplicateWindowMs: 120_000,
  };
}

/** Its consumer: never gives up. */
export const ADVISORY_CONSUMER: ConsumerConfig = {
  durable: 'dead-letters',
  ackWaitMs: 30_000,
  maxDeliver: -1,
  maxAckPending: 100,
};

const advisoryView = z.object({
  stream: z.string(),
  consumer: z.string(),
  stream_seq: z.number(),
  deliveries: z.number(),
});

/** Handles advisories: fetches the message that each speaks of and keeps it as a dead letter. */
export function keepGivenUp(admin: NatsAdmin, deadLetters: DeadLetterSink, log: Log, envelopes: Envelopes) {
  return async (batch: readonly StreamMessage[]): Promise<void> => {
    for (const told of batch) {
      const { data: advisory } = advisoryView.safeParse(jsonOf(Buffer.from(told.data).toString()));
      if (advisory === undefined) log.warn({ seq: told.seq }, 'an advisory cannot be read');
      else await keep(advisory, told.storedAt ?? Date.now());
      await told.ack();
    }
  };

  async function keep(
    { stream, consumer: durable, stream_seq: seq, deliveries }: z.output<typeof advisoryView>,
    toldAt: number,
  ): Promise<void> {
    const message = await admin.message(stream, seq);
    const storedAt = message?.time.getTime() ?? 0;
    // Gone by the stream's limits; or another message of a stream made anew.
    if (message === undefined || storedAt > toldAt) {
      log.warn({ stream, durable, seq }, 'a message was delivered too often, and is gone');
      return;
    }
    const msgId = message.header.get('Nats-Msg-Id') || undefined;
    const { subject } = message;
    const data = contentOf(message);
    if (data === undefined) {
      log.warn({ stream, durable, seq }, 'a message was delivered too often, and is not of the platform');
      return;
    }
    const reason = 'delivered too often';
    await deadLetters.add([{ stream, durable, seq, storedAt, subject, data, msgId, deliveries, reason }]);
  }

  function contentOf({ subject, data }: { subject: string; data: Uint8Array }): Uint8Array | undefined {
    if (!isInternal(subject)) return data;
    try {
      return envelopes.openKept(subject, data);
    } catch {
      return undefined;
    }
  }
}
