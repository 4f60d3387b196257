/**
 * What the embedded bus keeps on disk, and what the outbox relay reads. `storage` implements these over SQL;
 * `transports/bus` runs on them. Everything rejects with BusError: `unavailable` while the store cannot be reached (try
 * again), `no_stream` for a stream that does not exist.
 */
import type { StreamConfig } from './bus.ts';
import type { Ending } from './ending.ts';

/** A message to store. */
export interface NewMessage {
  readonly subject: string;
  readonly data: Uint8Array;
  readonly msgId: string | undefined;
}

/** Where a message is; `duplicate` when it was stored before under the same id. */
export interface Stored {
  readonly seq: number;
  readonly duplicate: boolean;
}

/** A durable consumer as stored. */
export interface StoredConsumer {
  readonly durable: string;
  readonly filter: string | undefined;
  readonly ackWaitMs: number;
  readonly maxDeliver: number;
  readonly maxAckPending: number;
}

/** A message handed out. */
export interface Delivery {
  readonly seq: number;
  readonly subject: string;
  readonly data: Uint8Array;
  readonly deliveryCount: number;
  /** The publisher's id of the message, if it gave one. */
  readonly msgId: string | undefined;
  /** When the stream took the message, Unix ms. */
  readonly storedAt: number;
}

/** What a fetch found. */
export interface Fetched<D extends Delivery = Delivery> {
  readonly deliveries: readonly D[];
  /** Milliseconds until a message handed out before is due again; undefined when none is out. */
  readonly nextDueMs: number | undefined;
  /** Messages remain that the fetch did not get to: fetch again. */
  readonly more: boolean;
}

/** Names one delivery: an answer to an earlier delivery of the same message has no effect. */
export interface DeliveryId {
  readonly seq: number;
  readonly deliveryCount: number;
}

/** A message given up. Stream, durable, seq and storedAt name it: numbers begin anew when a broker lost its store. */
export interface NewDeadLetter extends Omit<Delivery, 'deliveryCount'> {
  readonly stream: string;
  readonly durable: string;
  readonly deliveries: number;
  readonly reason: string;
}

/** A dead letter as kept. */
export interface StoredDeadLetter extends NewDeadLetter {
  readonly id: number;
  /** When it was given up, Unix ms. */
  readonly at: number;
  /** When it was last sent to its stream again, Unix ms. */
  readonly replayedAt: number | undefined;
}

/** Where a bus puts what its consumers gave up. */
export interface DeadLetterSink {
  /** Keeps them; one that is kept already changes nothing. Rejects BusError `unavailable`. */
  add(letters: readonly NewDeadLetter[]): Promise<void>;
}

/** Streams and consumers that survive a restart and are shared by all processes on one database. */
export interface StreamStore {
  ensureStream(config: StreamConfig): Promise<void>;
  streams(): Promise<StreamConfig[]>;
  /** Stores the messages in order, all or none; results in the same order. Applies the stream's limits. */
  append(stream: string, messages: readonly NewMessage[]): Promise<Stored[]>;
  ensureConsumer(stream: string, consumer: StoredConsumer): Promise<void>;
  /**
   * Hands out what is due again, then what is new, oldest first, within the consumer's limits. What was delivered too
   * often becomes a dead letter on the way. Of two callers at once, each gets other messages.
   */
  fetch(stream: string, durable: string): Promise<Fetched>;
  /** Done: never handed out again, whichever delivery of it is meant. */
  ack(stream: string, durable: string, seqs: readonly number[]): Promise<void>;
  /** Due again in `delayMs`. */
  nak(stream: string, durable: string, items: readonly (DeliveryId & { delayMs: number })[]): Promise<void>;
  /** Becomes a dead letter. */
  term(stream: string, durable: string, items: readonly (DeliveryId & { reason: string })[]): Promise<void>;
  /** Newest first, at most `limit`. */
  deadLetters(stream: string, limit: number): Promise<StoredDeadLetter[]>;
  /** Calls `handler` with the name of a stream that got messages, from any process; '' means look at all. */
  onAppend(handler: (stream: string) => void): Ending;
  /** Removes what is too old, in bounded steps. Resolves with whether there is more to remove. */
  trim(): Promise<boolean>;
}

/** An event waiting to be published. */
export interface OutboxEntry {
  readonly id: number;
  readonly msgId: string;
  readonly subject: string;
  readonly data: Uint8Array;
}

/** The relay's view of the outbox. */
export interface OutboxStore {
  /** Oldest first, those with an id above `after`. */
  take(limit: number, after: number): Promise<OutboxEntry[]>;
  /** They are published. */
  remove(ids: readonly number[]): Promise<void>;
  /** Calls `handler` after commits that wrote events, and whenever such news may have been missed. */
  onWrite(handler: () => void): Ending;
}
