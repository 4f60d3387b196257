import type { Ask } from './asks.ts';

/** What a waiting message carries: its ask, or for a tell the coarse clock (ms) at which it arrived. */
export type Meta = Ask | number;

const CHUNK_MESSAGES = 128;
/** Spare parts kept for the next burst: at most 64 * 2 KiB. */
const SPARES = 64;
/** A mailbox this long goes on in large chunks. */
const FLOOD = 4096;
/** Just over 128 KiB an array: the collector keeps those apart and never moves them, which would hold up the loop. */
const LARGE_CHUNK_MESSAGES = 16_640;

/** Room for so many messages and their metas. */
class Chunk {
  readonly messages: unknown[];
  readonly metas: Meta[];
  next: Chunk | undefined = undefined;

  constructor(size: number) {
    this.messages = new Array(size).fill(undefined);
    this.metas = new Array(size).fill(0);
  }
}

const spareChunks: Chunk[] = [];
const spareMailboxes: Mailbox[] = [];

function takeChunk(): Chunk {
  return spareChunks.pop() ?? new Chunk(CHUNK_MESSAGES);
}

function giveChunk(chunk: Chunk): void {
  chunk.next = undefined;
  if (spareChunks.length < SPARES && chunk.messages.length === CHUNK_MESSAGES) spareChunks.push(chunk);
}

/**
 * A queue of messages in linked chunks: nothing is moved or copied, taking is O(1) after any burst. An actor has one
 * only while two or more messages wait; emptied ones go back to a small pool.
 */
export class Mailbox {
  length = 0;
  /** Meta of the message `take` returned last. */
  meta: Meta = 0;
  private head: Chunk = takeChunk();
  private tail: Chunk = this.head;
  private headAt = 0;
  private tailAt = 0;

  push(msg: unknown, meta: Meta): void {
    let at = this.tailAt;
    let chunk = this.tail;
    if (at === chunk.messages.length) {
      const next = this.length < FLOOD ? takeChunk() : new Chunk(LARGE_CHUNK_MESSAGES);
      chunk.next = next;
      this.tail = next;
      chunk = next;
      at = 0;
    }
    chunk.messages[at] = msg;
    chunk.metas[at] = meta;
    this.tailAt = at + 1;
    this.length++;
  }

  /** The oldest message; its meta is then in `meta`. Only when `length` > 0. */
  take(): unknown {
    const chunk = this.head;
    const at = this.headAt;
    const msg = chunk.messages[at];
    this.meta = chunk.metas[at] ?? 0;
    chunk.messages[at] = undefined;
    chunk.metas[at] = 0;
    this.length--;
    if (at + 1 === chunk.messages.length) {
      this.headAt = 0;
      if (chunk.next === undefined) this.tailAt = 0;
      else {
        this.head = chunk.next;
        giveChunk(chunk);
      }
    } else this.headAt = at + 1;
    return msg;
  }

  /** Meta of the oldest message; only when `length` > 0. */
  peekMeta(): Meta {
    return this.head.metas[this.headAt] ?? 0;
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

  /** Whether it is back to the room it began with, or as little. Only when it is empty. */
  get small(): boolean {
    return this.head.messages.length === CHUNK_MESSAGES;
  }

  /** Makes an emptied mailbox as good as new. */
  rewind(): void {
    this.meta = 0;
    this.headAt = 0;
    this.tailAt = 0;
  }
}

/** An empty mailbox. */
export function takeMailbox(): Mailbox {
  return spareMailboxes.pop() ?? new Mailbox();
}

/** Gives an emptied mailbox back; the caller forgets it. */
export function giveMailbox(mailbox: Mailbox): void {
  mailbox.rewind();
  if (spareMailboxes.length < SPARES && mailbox.small) spareMailboxes.push(mailbox);
}
