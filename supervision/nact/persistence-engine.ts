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
