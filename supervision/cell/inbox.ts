import { Ref } from '../ref.ts';
import { PILE, SLOT } from './flags.ts';
import { giveMailbox, type Mailbox, type Meta, takeMailbox } from './mailbox.ts';

/** Meta of the message taken last. Not kept by each actor: whoever took the message reads it at once. */
export const taken: { meta: Meta } = { meta: 0 };

/**
 * What waits at an actor. The first message sits in a slot of the actor itself; a mailbox exists only while more wait,
 * so that an idle actor, or one that is told things one at a time, has none.
 */
export abstract class Inbox extends Ref<unknown> {
  flags = 0;
  protected slotMsg: unknown = undefined;
  protected slotMeta: Meta = 0;
  protected mailbox: Mailbox | undefined = undefined;

  /** Messages that wait. */
  get depth(): number {
    if (this.mailbox !== undefined) return this.mailbox.length;
    return (this.flags & SLOT) !== 0 ? 1 : 0;
  }

  /** Only when one message waits, in the slot. */
  protected putSecond(msg: unknown, meta: Meta): void {
    const mailbox = takeMailbox();
    mailbox.push(this.slotMsg, this.slotMeta);
    mailbox.push(msg, meta);
    this.emptySlot();
    this.mailbox = mailbox;
    this.flags |= PILE;
  }

  /** The oldest waiting message; its meta is then in `taken`. Only when something waits. */
  protected take(): unknown {
    if ((this.flags & SLOT) === 0) return this.takeFromPile();
    const msg = this.slotMsg;
    taken.meta = this.slotMeta;
    this.emptySlot();
    return msg;
  }

  private takeFromPile(): unknown {
    const mailbox = this.mailbox;
    if (mailbox === undefined) return undefined;
    const msg = mailbox.take();
    taken.meta = mailbox.meta;
    if (mailbox.length === 0) {
      this.mailbox = undefined;
      this.flags &= ~PILE;
      giveMailbox(mailbox);
    }
    return msg;
  }

  /** Meta of the oldest waiting message; undefined when none waits. */
  oldestMeta(): Meta | undefined {
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
