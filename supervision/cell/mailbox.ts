import type { Ask } from './asks.ts';
import type { TracedTell } from './traced-tell.ts';

/**
 * What a waiting message carries: its ask, or for a tell its trace if it has one, else the coarse time of its arrival.
 */
export type Meta = Ask | TracedTell | number;

/** The clock's stamps are never negative. */
const NO_STAMP = -1;
const CHUNK_MESSAGES = 128;
/** Spare parts kept for the next burst, of each kind. */
const SPARES = 64;
/** A mailbox this long goes on in large chunks. */
const FLOOD = 4096;
/** Just over 128 KiB an array: the collector keeps those apart and never moves them, which would hold up the loop. */
const LARGE_CHUNK_MESSAGES = 16_640;

/**
 * Room for so many messages. Their metas are kept as runs: most messages of a burst share one stamp, so one is written
 * for all that follow each other with it.
 */
class Chunk {
  readonly messages: unknown[];
  /** Where in `messages` each run begins. */
  readonly places: number[] = [];
  /** The meta of each run. */
  readonly metas: Meta[] = [];
  /** How many runs there are; the arrays keep their room. */
  runs = 0;
  next: Chunk | undefined = undefined;

  constructor(size: number) {
    this.messages = new Array(size);
    // Tells the engine that anything may come, as filling it would, but touches no page before its turn.
    this.messages[0] = undefined;
  }
}

/** Empty mailboxes and chunks of one system, kept for its next burst. */
export class MailboxPool {
  private readonly mailboxes: Mailbox[] = [];
  private readonly chunks: Chunk[] = [];
  /** Large ones: fresh pages take longer than the messages. The next full collection takes them. */
  private largeChunks = new WeakRef<Chunk[]>([]);

  /** An empty mailbox. */
  take(): Mailbox {
    return this.mailboxes.pop() ?? new Mailbox(this);
  }

  /** Gives an emptied mailbox back; the caller forgets it. */
  give(mailbox: Mailbox): void {
    mailbox.rewind();
    if (this.mailboxes.length < SPARES) this.mailboxes.push(mailbox);
  }

  takeChunk(): Chunk {
    return this.chunks.pop() ?? new Chunk(CHUNK_MESSAGES);
  }

  takeLargeChunk(): Chunk {
    return this.largeSpares().pop() ?? new Chunk(LARGE_CHUNK_MESSAGES);
  }

  giveChunk(chunk: Chunk): void {
    chunk.next = undefined;
    chunk.runs = 0;
    const spares = chunk.messages.length === CHUNK_MESSAGES ? this.chunks : this.largeSpares();
    if (spares.length < SPARES) spares.push(chunk);
  }

  private largeSpares(): Chunk[] {
    const spares = this.largeChunks.deref();
    if (spares !== undefined) return spares;
    const none: Chunk[] = [];
    this.largeChunks = new WeakRef(none);
    return none;
  }
}

/**
 * A queue of messages in linked chunks: nothing is moved or copied, taking is O(1) after any burst. An actor has one
 * only while two or more messages wait; emptied ones go back to the pool of their system.
 */
export class Mailbox {
  private readonly pool: MailboxPool;
  length = 0;
  /** Meta of the message `take` returned last. */
  meta: Meta = 0;
  private head: Chunk;
  private tail: Chunk;
  private headAt = 0;
  private tailAt = 0;
  /** Stamp of the message that was put in last; NO_STAMP when that was an ask. */
  private lastStamp = 0;
  /** The run of `head` that comes next, and where it begins; -1 when there is none yet. */
  private nextRun = 0;
  private nextRunAt = -1;

  constructor(pool: MailboxPool) {
    this.pool = pool;
    this.head = pool.takeChunk();
    this.tail = this.head;
  }

  push(msg: unknown, meta: Meta): void {
    let at = this.tailAt;
    let chunk = this.tail;
    if (at === chunk.messages.length) {
      chunk = this.extend(chunk);
      at = 0;
    }
    chunk.messages[at] = msg;
    if (typeof meta !== 'number' || meta !== this.lastStamp) this.beginRun(chunk, at, meta);
    this.tailAt = at + 1;
    this.length++;
  }

  private extend(last: Chunk): Chunk {
    const chunk = this.length < FLOOD ? this.pool.takeChunk() : this.pool.takeLargeChunk();
    last.next = chunk;
    this.tail = chunk;
    return chunk;
  }

  private beginRun(chunk: Chunk, at: number, meta: Meta): void {
    this.lastStamp = typeof meta === 'number' ? meta : NO_STAMP;
    chunk.places[chunk.runs] = at;
    chunk.metas[chunk.runs] = meta;
    chunk.runs++;
    if (chunk === this.head && this.nextRunAt < 0) this.nextRunAt = at;
  }

  /** The oldest message; its meta is then in `meta`. Only when `length` > 0. */
  take(): unknown {
    const chunk = this.head;
    const at = this.headAt;
    const msg = chunk.messages[at];
    chunk.messages[at] = undefined;
    if (at === this.nextRunAt) this.enterRun(chunk);
    this.length--;
    if (at + 1 === chunk.messages.length) this.leave(chunk);
    else this.headAt = at + 1;
    return msg;
  }

  private enterRun(chunk: Chunk): void {
    this.meta = chunk.metas[this.nextRun] ?? 0;
    chunk.metas[this.nextRun] = 0;
    this.nextRun++;
    this.nextRunAt = this.runAt(chunk);
  }

  private runAt(chunk: Chunk): number {
    return this.nextRun < chunk.runs ? (chunk.places[this.nextRun] ?? -1) : -1;
  }

  /** Goes on with the next chunk, or with this one from its beginning. */
  private leave(chunk: Chunk): void {
    this.headAt = 0;
    this.nextRun = 0;
    if (chunk.next === undefined) {
      this.tailAt = 0;
      chunk.runs = 0;
    } else {
      this.head = chunk.next;
      this.pool.giveChunk(chunk);
    }
    this.nextRunAt = this.runAt(this.head);
  }

  /** The oldest message; only when `length` > 0. */
  peek(): unknown {
    return this.head.messages[this.headAt];
  }

  /** Meta of the oldest message; only when `length` > 0. */
  peekMeta(): Meta {
    return this.headAt === this.nextRunAt ? (this.head.metas[this.nextRun] ?? 0) : this.meta;
  }

  /** Whether this very message waits. */
  has(msg: unknown): boolean {
    let chunk: Chunk | undefined = this.head;
    for (let at = this.headAt; chunk !== undefined; chunk = chunk.next, at = 0) {
      const found = chunk.messages.indexOf(msg, at);
      if (found >= 0 && (chunk !== this.tail || found < this.tailAt)) return true;
    }
    return false;
  }

  /** A copy of the messages that wait, oldest first. */
  toArray(): unknown[] {
    const messages: unknown[] = [];
    let chunk = this.head;
    let at = this.headAt;
    for (let i = 0; i < this.length; i++) {
      if (at === chunk.messages.length && chunk.next !== undefined) {
        chunk = chunk.next;
        at = 0;
      }
      messages.push(chunk.messages[at]);
      at++;
    }
    return messages;
  }

  /** Makes an emptied mailbox as good as new, with no more room than a new one. */
  rewind(): void {
    if (this.head.messages.length !== CHUNK_MESSAGES) {
      this.pool.giveChunk(this.head);
      this.head = this.pool.takeChunk();
      this.tail = this.head;
    }
    this.head.runs = 0;
    this.headAt = 0;
    this.tailAt = 0;
    this.meta = 0;
    this.lastStamp = 0;
    this.nextRun = 0;
    this.nextRunAt = -1;
  }
}
