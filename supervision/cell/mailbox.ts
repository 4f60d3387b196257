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
  /** How many messages its present actor takes. */
  capacity = 0;
  /** Meta of the message `take` returned last. */
  meta: Meta = 0;
  private head: Chunk;
  private tail: Chunk;
  /** Of the head, and of the tail. */
  private heads: unknown[];
  private tails: unknown[];
  private headAt = 0;
  private tailAt = 0;
  /** Stamp of the message that was put in last; NO_STAMP when that was an ask. */
  private lastStamp = 0;
  /** The run of `head` that comes next. */
  private nextRun = 0;
  /** Where in `head` something changes: the next run begins, or the chunk is over. */
  private turnAt = CHUNK_MESSAGES;

  constructor(pool: MailboxPool) {
    this.pool = pool;
    this.head = pool.takeChunk();
    this.tail = this.head;
    this.heads = this.head.messages;
    this.tails = this.heads;
  }

  push(msg: unknown, meta: Meta): void {
    if (this.tailAt === this.tails.length) this.extend();
    const at = this.tailAt;
    this.tails[at] = msg;
    if (typeof meta !== 'number' || meta !== this.lastStamp) this.beginRun(at, meta);
    this.tailAt = at + 1;
    this.length++;
  }

  private extend(): void {
    const chunk = this.length < FLOOD ? this.pool.takeChunk() : this.pool.takeLargeChunk();
    this.tail.next = chunk;
    this.tail = chunk;
    this.tails = chunk.messages;
    this.tailAt = 0;
  }

  private beginRun(at: number, meta: Meta): void {
    const chunk = this.tail;
    this.lastStamp = typeof meta === 'number' ? meta : NO_STAMP;
    chunk.places[chunk.runs] = at;
    chunk.metas[chunk.runs] = meta;
    chunk.runs++;
    if (chunk === this.head && at < this.turnAt) this.turnAt = at;
  }

  /** The oldest message; its meta is then in `meta`. Only when `length` > 0. */
  take(): unknown {
    if (this.headAt === this.turnAt) this.turn();
    const messages = this.heads;
    const at = this.headAt;
    const msg = messages[at];
    messages[at] = undefined;
    this.headAt = at + 1;
    this.length--;
    return msg;
  }

  /** Goes on with the next chunk if this one is over, and enters the run that begins here if one does. */
  private turn(): void {
    const { next } = this.head;
    if (next !== undefined && this.headAt === this.head.messages.length) {
      this.pool.giveChunk(this.head);
      this.head = next;
      this.heads = next.messages;
      this.headAt = 0;
      this.nextRun = 0;
    }
    const { head } = this;
    if (this.nextRun < head.runs && head.places[this.nextRun] === this.headAt) {
      this.meta = head.metas[this.nextRun] ?? 0;
      head.metas[this.nextRun] = 0;
      this.nextRun++;
    }
    this.turnAt = this.nextRun < head.runs ? (head.places[this.nextRun] ?? 0) : head.messages.length;
  }

  /** The oldest message; only when `length` > 0. */
  peek(): unknown {
    const { head, headAt } = this;
    return headAt === head.messages.length ? head.next?.messages[0] : head.messages[headAt];
  }

  /** Meta of the oldest message; only when `length` > 0. */
  peekMeta(): Meta {
    const { head, headAt } = this;
    if (headAt !== this.turnAt) return this.meta;
    if (headAt < head.messages.length) return head.metas[this.nextRun] ?? 0;
    return head.next?.places[0] === 0 && head.next.runs > 0 ? (head.next.metas[0] ?? 0) : this.meta;
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

  /** Makes an emptied mailbox ready for its next actor, with no more room than a new one. */
  rewind(): void {
    if (this.tails.length !== CHUNK_MESSAGES) {
      this.pool.giveChunk(this.head);
      this.head = this.pool.takeChunk();
      this.tail = this.head;
      this.heads = this.head.messages;
      this.tails = this.heads;
    }
    this.head.runs = 0;
    this.nextRun = 0;
    this.headAt = 0;
    this.tailAt = 0;
    this.turnAt = CHUNK_MESSAGES;
    // It goes on from the stamp that it has; an ask would be held.
    if (this.lastStamp < 0) {
      this.lastStamp = 0;
      this.meta = 0;
    }
  }
}
