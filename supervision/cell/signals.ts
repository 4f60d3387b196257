/** What waits in a SignalQueue. */
interface Signal {
  readonly msg: unknown;
  /** Coarse time of its arrival. */
  readonly at: number;
  next: Signal | undefined;
}

/**
 * The signals that wait at an actor, in the order they came: ends that it watches for, and its one-shot timers. They
 * are apart from its mailbox, whose bound they must not meet, since nobody sends them again. What the actor watches and
 * what timers it sets bounds their number. One exists only while signals wait.
 */
export class SignalQueue {
  length = 0;
  private first: Signal | undefined = undefined;
  private last: Signal | undefined = undefined;

  push(msg: unknown, at: number): void {
    const signal: Signal = { msg, at, next: undefined };
    if (this.last === undefined) this.first = signal;
    else this.last.next = signal;
    this.last = signal;
    this.length++;
  }

  /** The oldest; undefined when none waits. */
  take(): Signal | undefined {
    const signal = this.first;
    if (signal === undefined) return undefined;
    this.first = signal.next;
    if (this.first === undefined) this.last = undefined;
    this.length--;
    return signal;
  }

  /** The oldest, which stays; undefined when none waits. */
  get oldest(): Pick<Signal, 'msg' | 'at'> | undefined {
    return this.first;
  }

  /** The oldest message. */
  peek(): unknown {
    return this.first?.msg;
  }

  /** A copy of the messages, oldest first. */
  toArray(): unknown[] {
    const messages: unknown[] = [];
    for (let signal = this.first; signal !== undefined; signal = signal.next) messages.push(signal.msg);
    return messages;
  }
}
