/** What was persisted under a key, and how far it was read. */
import type { NactLogger } from './logger.ts';

/** Where persistent actors keep what happened: the adapter that the application hands in. */

/** A message that was persisted. */
export interface PersistedEvent {
  readonly data: unknown;
  /** From 1, without gaps, for each key. */
  readonly sequenceNumber: number;
  readonly key: string;
  /** Unix ms. */
  readonly createdAt: number;
  /** Passed over when the events are read. */
  readonly isDeleted: boolean;
  /** Sorted. */
  readonly tags: readonly string[];
}

/** A state as of an event. */
export interface PersistedSnapshot {
  readonly data: unknown;
  readonly sequenceNumber: number;
  readonly key: string;
  readonly createdAt: number;
}

/** Events in order. An array is one. */
export interface PersistedEventStream {
  reduce<U>(next: (former: U, event: PersistedEvent, index: number) => U, initial: U): U | Promise<U>;
}

/** The adapter. What it rejects with is a crash of the actor that needs it. */
export interface PersistenceEngine {
  /** The events of a key after the first `offset`. */
  events(key: string, offset: number, limit?: number, tags?: readonly string[]): PersistedEventStream;
  latestSnapshot(key: string): Promise<PersistedSnapshot | undefined>;
  takeSnapshot(snapshot: PersistedSnapshot): Promise<unknown>;
  persist(event: PersistedEvent, ...more: readonly unknown[]): Promise<unknown>;
}

/** How messages and states become what is kept, and back. Default: as they are. */
export interface JournalProps<State, Msg> {
  encoder?(message: Msg): unknown;
  decoder?(data: unknown): Msg;
  snapshotEncoder?(state: State): unknown;
  snapshotDecoder?(data: unknown): State;
  /** A snapshot after so many persisted messages. Default: never. */
  readonly snapshotEvery?: number;
}

/** Messages of one key, in order, and snapshots of the state that they make. */
export class Journal<State, Msg> {
  readonly #engine: PersistenceEngine;
  readonly #key: string;
  /** Where snapshots are; undefined: there are none. */
  readonly #snapshotKey: string | undefined;
  readonly #props: JournalProps<State, Msg>;
  readonly #log: NactLogger;
  #sequence = 0;
  #sinceSnapshot = 0;

  constructor(
    engine: PersistenceEngine,
    key: string,
    snapshotKey: string | undefined,
    props: JournalProps<State, Msg>,
    log: NactLogger,
  ) {
    this.#engine = engine;
    this.#key = key;
    this.#snapshotKey = snapshotKey;
    this.#props = props;
    this.#log = log;
  }

  /** The state of all that was persisted: of the latest snapshot, or `first`, and what came after. */
  async readAll(first: State, apply: (state: State, message: Msg) => State | Promise<State>): Promise<State> {
    this.#sequence = 0;
    this.#sinceSnapshot = 0;
    const snapshot = this.#snapshotKey === undefined ? undefined : await this.#engine.latestSnapshot(this.#snapshotKey);
    if (snapshot === undefined || snapshot === null) return this.readOn(first, apply);
    this.#sequence = snapshot.sequenceNumber;
    const { snapshotDecoder } = this.#props;
    // Without a decoder what was kept is the state: the application says so by giving none.
    return this.readOn(snapshotDecoder ? snapshotDecoder(snapshot.data) : (snapshot.data as State), apply);
  }

  /** The state after what was persisted since it was read last. */
  async readOn(state: State, apply: (state: State, message: Msg) => State | Promise<State>): Promise<State> {
    const { decoder } = this.#props;
    const stream = this.#engine.events(this.#key, this.#sequence);
    return stream.reduce<Promise<State>>(async (former, event) => {
      const before = await former;
      this.#sequence = event.sequenceNumber;
      if (event.isDeleted) return before;
      this.#sinceSnapshot += 1;
      return apply(before, decoder ? decoder(event.data) : (event.data as Msg));
    }, Promise.resolve(state));
  }

  /** Keeps a message. Rejects as the engine does. */
  async persist(message: Msg, tags: readonly string[], more: readonly unknown[]): Promise<void> {
    const data = this.#props.encoder ? this.#props.encoder(message) : message;
    this.#sequence += 1;
    this.#sinceSnapshot += 1;
    const origin = { sequenceNumber: this.#sequence, key: this.#key, createdAt: Date.now() };
    await this.#engine.persist({ data, tags: [...tags].sort(), isDeleted: false, ...origin }, ...more);
  }

  /** Takes a snapshot if it is time, beside what the actor does next. A failure is logged, and tried again later. */
  snapshotIfDue(state: State): void {
    const { snapshotEvery, snapshotEncoder } = this.#props;
    if (this.#snapshotKey === undefined || !snapshotEvery || this.#sinceSnapshot < snapshotEvery) return;
    this.#sinceSnapshot = 0;
    const data = snapshotEncoder ? snapshotEncoder(state) : state;
    const snapshot = { data, sequenceNumber: this.#sequence, key: this.#snapshotKey, createdAt: Date.now() };
    this.#engine.takeSnapshot(snapshot).catch((error: unknown) => this.#log.exception(error));
  }
}
