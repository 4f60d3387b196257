import { Ref } from '../ref.ts';
import { BEYOND_SLOT, PILE, SIGNALS, SLOT } from './flags.ts';
import type { Mailbox, MailboxPool, Meta } from './mailbox.ts';
import type { SignalQueue } from './signals.ts';

/** Meta of the message taken last. Not kept by each actor: whoever took the message reads it at once. */
export const taken: { meta: Meta } = { meta: 0 };

/**
 * What waits at an actor. The first message sits in a slot of the actor itself; a mailbox exists only while more wait,
 * so that an idle actor, or one that is told things one at a time, has none. Signals wait apart, and are taken first.
 */
export abstract class Inbox extends Ref<unknown> {
  flags = 0;
  protected slotMsg: unknown = undefined;
  protected slotMeta: Meta = 0;
  protected mailbox: Mailbox | undefined = undefined;

  /** The rare parts; all that counts here are its signals. */
  abstract rare: { signals: SignalQueue | undefined } | undefined;

  /** All that counts here are the mailboxes of its system. */
  abstract readonly kind: { readonly mailboxes: MailboxPool };

  /** Messages and signals that wait. */
  get depth(): number {
    const signals = this.rare?.signals?.length ?? 0;
    if (this.mailbox !== undefined) return signals + this.mailbox.length;
    return (this.flags & SLOT) !== 0 ? signals + 1 : signals;
  }

  /** Only when one message waits, in the slot. From here on there is room for `capacity` of them. */
  protected putSecond(msg: unknown, meta: Meta, capacity: number): void {
    const mailbox = this.kind.mailboxes.take();
    mailbox.capacity = capacity;
    mailbox.push(this.slotMsg, this.slotMeta);
    mailbox.push(msg, meta);
    this.emptySlot();
    this.mailbox = mailbox;
    this.flags |= PILE;
  }

  /** The oldest signal, or else the oldest message; its meta is then in `taken`. Only when something waits. */
  protected take(): unknown {
    if ((this.flags & BEYOND_SLOT) !== 0) return (this.flags & SIGNALS) === 0 ? this.takeFromPile() : this.takeSignal();
    const msg = this.slotMsg;
    taken.meta = this.slotMeta;
    this.emptySlot();
    return msg;
  }

  protected takeSignal(): unknown {
    const signals = this.rare?.signals;
    const signal = signals?.take();
    if (this.rare !== undefined && signals?.length === 0) {
      this.rare.signals = undefined;
      this.flags &= ~SIGNALS;
    }
    taken.meta = signal?.at ?? 0;
    return signal?.msg;
  }

  /** The oldest message that is no signal; its meta is then in `taken`. Only when there is one. */
  protected takeMail(): unknown {
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
    if (mailbox.length === 0) this.giveMailbox(mailbox);
    return msg;
  }

  protected giveMailbox(mailbox: Mailbox): void {
    this.mailbox = undefined;
    this.flags &= ~PILE;
    this.kind.mailboxes.give(mailbox);
  }

  /** What `take` would give, which stays; its meta is then in `taken`. Only when something waits. */
  peek(): unknown {
    const signal = (this.flags & SIGNALS) === 0 ? undefined : this.rare?.signals?.oldest;
    taken.meta = signal?.at ?? this.oldestMeta() ?? 0;
    if (signal !== undefined) return signal.msg;
    return this.mailbox === undefined ? this.slotMsg : this.mailbox.peek();
  }

  /** Meta of the oldest waiting message that is no signal; undefined when none waits. */
  oldestMeta(): Meta | undefined {
    if (this.mailbox !== undefined) return this.mailbox.peekMeta();
    return (this.flags & SLOT) !== 0 ? this.slotMeta : undefined;
  }

  /** The message that will be handled next; undefined when none waits. */
  get nextMessage(): unknown {
    const signals = this.rare?.signals;
    if (signals !== undefined) return signals.peek();
    return this.mailbox === undefined ? this.slotMsg : this.mailbox.peek();
  }

  /** A copy of what waits, in the order in which it will be handled. */
  waiting(): unknown[] {
    const signals = this.rare?.signals?.toArray() ?? [];
    if (this.mailbox !== undefined) return [...signals, ...this.mailbox.toArray()];
    return (this.flags & SLOT) !== 0 ? [...signals, this.slotMsg] : signals;
  }

  /** Whether this very message waits, not as a signal. */
  holds(msg: unknown): boolean {
    if (this.mailbox !== undefined) return this.mailbox.has(msg);
    return (this.flags & SLOT) !== 0 && this.slotMsg === msg;
  }

  protected emptySlot(): void {
    this.slotMsg = undefined;
    this.slotMeta = 0;
    this.flags &= ~SLOT;
  }
}
