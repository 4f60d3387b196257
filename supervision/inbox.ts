import { SLOT } from './flags.ts';
import { giveMailbox, type Mailbox, type Meta, takeMailbox } from './mailbox.ts';
import { Ref } from './ref.ts';

/**
 * What waits at an actor. The first message sits in a slot of the actor itself; a mailbox exists only while more wait,
 * so that an idle actor, or one that is told things one at a time, has none.
 */
export abstract class Inbox extends Ref<unknown> {
  flags = 0;
  private slotMsg: unknown = undefined;
  private slotMeta: Meta = 0;
  protected mailbox: Mailbox | undefined = undefined;
  /** Meta of the message `take` returned last. */
  protected takenMeta: Meta = 0;

  /** Messages that wait. */
  get depth(): number {
    if (this.mailbox !== undefined) return this.mailbox.length;
    return (this.flags & SLOT) !== 0 ? 1 : 0;
  }

  /** Only when nothing waits. */
  protected putFirst(msg: unknown, meta: Meta): void {
    this.slotMsg = msg;
    this.slotMeta = meta;
    this.flags |= SLOT;
  }

  /** Only when something waits. */
  protected putNext(msg: unknown, meta: Meta): void {
    let mailbox = this.mailbox;
    if (mailbox === undefined) {
      mailbox = takeMailbox();
      mailbox.push(this.slotMsg, this.slotMeta);
      this.emptySlot();
      this.mailbox = mailbox;
    }
    mailbox.push(msg, meta);
  }

  /** The oldest waiting message; its meta is then in `takenMeta`. Only when something waits. */
  protected take(): unknown {
    const mailbox = this.mailbox;
    if (mailbox === undefined) {
      const msg = this.slotMsg;
      this.takenMeta = this.slotMeta;
      this.emptySlot();
      return msg;
    }
    const msg = mailbox.take();
    this.takenMeta = mailbox.meta;
    if (mailbox.length === 0) {
      this.mailbox = undefined;
      giveMailbox(mailbox);
    }
    return msg;
  }

  /** Meta of the oldest waiting message; undefined when none waits. */
  protected oldestMeta(): Meta | undefined {
    if (this.mailbox !== undefined) return this.mailbox.peekMeta();
    return (this.flags & SLOT) !== 0 ? this.slotMeta : undefined;
  }

  /** A copy of what waits, oldest first. */
  waiting(): unknown[] {
    if (this.mailbox !== undefined) return this.mailbox.toArray();
    return (this.flags & SLOT) !== 0 ? [this.slotMsg] : [];
  }

  /** Whether this very message waits. */
  holds(msg: unknown): boolean {
    if (this.mailbox !== undefined) return this.mailbox.has(msg);
    return (this.flags & SLOT) !== 0 && this.slotMsg === msg;
  }

  private emptySlot(): void {
    this.slotMsg = undefined;
    this.slotMeta = 0;
    this.flags &= ~SLOT;
  }
}
