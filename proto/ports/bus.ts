/** The bus between parts and nodes, and what it carries. */
import { CodedError } from '../../lib/errors.ts';
import type { Ending } from './ending.ts';

/** One message as delivered. `data` belongs to the receiver. */
export interface BusMessage {
  readonly subject: string;
  readonly data: Uint8Array;
  /** Where an answer to `request` goes; absent on plain publishes. */
  readonly reply?: string;
}

/** Limits of a stream: the oldest messages go first when one is exceeded. */
export interface StreamConfig {
  readonly name: string;
  /** Subject patterns with `*` (one token) and `>` (the rest). */
  readonly subjects: readonly string[];
  readonly maxMessages: number;
  readonly maxBytes: number;
  readonly maxAgeMs: number;
  /** Within this window a repeated `msgId` is acknowledged as a duplicate and not stored again. */
  readonly duplicateWindowMs: number;
}

/** A durable consumer: delivery starts with the oldest message (deliver policy all), each must be acknowledged. */
export interface ConsumerConfig {
  readonly durable: string;
  readonly filter?: string;
  readonly ackWaitMs: number;
  readonly maxDeliver: number;
  /** Most messages handed out and not yet acknowledged. */
  readonly maxAckPending: number;
  /** Batches that the handler may have at once, in order, a few megabytes. Default 1: the next waits for the last. */
  readonly batchesAtOnce?: number;
}

/** A message of a stream. Exactly one of ack, nak or term ends this delivery; none within `ackWaitMs` redelivers it. */
export interface StreamMessage extends BusMessage {
  readonly seq: number;
  /** 1 on the first delivery. */
  readonly deliveryCount: number;
  /** The publisher's id of the message, if it gave one. */
  readonly msgId?: string | undefined;
  /** When the stream took it, Unix ms. With `seq` it names it for ever: a broker that lost its store counts anew. */
  readonly storedAt?: number;
  ack(): Promise<void>;
  /** Redeliver, not before `delayMs` from now. */
  nak(delayMs?: number): Promise<void>;
  /** Give up: never redeliver, keep as a dead letter with `reason`. */
  term(reason: string): Promise<void>;
}

/**
 * What joins parts and nodes. Core messages (publish, request) are at most once; streams are at least once and survive
 * a restart. Two implementations, one contract suite.
 */
export interface Bus {
  publish(subject: string, data: Uint8Array): void;
  /**
   * `queue`: of all subscribers with one queue name, one gets each message. `drains`: closing it first hands out what
   * was on its way to us (a broker that does not answer is waited for at most a second); who sends a request later
   * hears `no_responders`.
   */
  subscribe(
    subject: string,
    handler: (message: BusMessage) => void,
    options?: { queue?: string; drains?: boolean },
  ): Ending;
  /** Rejects with BusError `timeout` or `no_responders`. */
  request(subject: string, data: Uint8Array, timeoutMs: number): Promise<Uint8Array>;
  /** Creates the stream, or changes it to this configuration. Idempotent. */
  ensureStream(config: StreamConfig): Promise<void>;
  /**
   * Stores the message; resolves once it is stored as durably as the broker does. Rejects with BusError `no_stream`
   * when no stream has the subject, and `unavailable` when that could not be done in time: it may be stored all the
   * same, so try again under the same `msgId`, which then may count as a duplicate.
   */
  append(subject: string, data: Uint8Array, options?: { msgId?: string }): Promise<{ seq: number; duplicate: boolean }>;
  /** Hands out messages in batches of at most `maxAckPending`; a handler that throws naks with a delay. */
  consume(
    stream: string,
    config: ConsumerConfig,
    handler: (batch: readonly StreamMessage[]) => Promise<void>,
  ): Promise<Ending>;
  close(): Promise<void>;
}

/** What can go wrong on a bus, by code. */
export type BusErrorCode =
  | 'timeout'
  | 'no_responders'
  | 'no_stream'
  | 'closed'
  | 'unavailable' // the broker or the store is away, or overloaded: try again
  | 'refused' // the broker refuses this as it is set up: trying again does not help
  | 'too_large';

/** The one error a Bus rejects with. */
export class BusError extends CodedError<BusErrorCode> {}
