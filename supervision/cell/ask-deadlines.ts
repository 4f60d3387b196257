import { type ClockTimer, nodeClock, type SystemClock } from '../environment.ts';
import { MAX_TIMER_MS } from './timer.ts';

/** Something that waits until `deadline` (on the clock of its system). */
export interface WaitingAsk {
  deadline: number;
  before: WaitingAsk | undefined;
  after: WaitingAsk | undefined;
  list: DeadlineList | undefined;
  expire(): void;
}

/**
 * All that wait equally long. New ones go last, so the first is always the next to expire and one timer serves all.
 * Putting in and taking out are O(1) and touch no timer while the list stays in use.
 */
export class DeadlineList {
  readonly ms: number;
  private readonly all: AskDeadlines;
  private first: WaitingAsk | undefined = undefined;
  private last: WaitingAsk | undefined = undefined;
  private timer: ClockTimer | undefined = undefined;

  constructor(ms: number, all: AskDeadlines) {
    this.ms = ms;
    this.all = all;
  }

  add(item: WaitingAsk): void {
    item.list = this;
    item.deadline = this.all.queue.now() + this.ms;
    item.before = this.last;
    if (this.last === undefined) this.first = item;
    else this.last.after = item;
    this.last = item;
    if (this.timer === undefined) this.arm(this.ms);
    this.all.added();
  }

  remove(item: WaitingAsk): void {
    if (item.before === undefined) this.first = item.after;
    else item.before.after = item.after;
    if (item.after === undefined) this.last = item.before;
    else item.after.before = item.before;
    item.before = undefined;
    item.after = undefined;
    item.list = undefined;
    this.all.removed();
  }

  /** Ends its timer. Only while nothing waits in it. */
  disarm(): void {
    this.timer?.close();
    this.timer = undefined;
  }

  private arm(ms: number): void {
    this.timer = this.all.queue.clock.setTimeout(() => this.fire(), Math.min(ms, MAX_TIMER_MS));
    this.timer.unref();
  }

  private fire(): void {
    this.timer = undefined;
    const now = this.all.queue.clock.now();
    while (this.first !== undefined && this.first.deadline <= now) {
      const item = this.first;
      this.remove(item);
      item.expire();
    }
    if (this.first !== undefined) this.arm(Math.max(1, Math.ceil(this.first.deadline - now)));
    else this.all.forget(this);
  }
}

/** The run queue, as far as deadlines need it. */
interface AskTime {
  readonly clock: SystemClock;
  /** Whether handlers run right now. */
  readonly draining: boolean;
  /** The time, for whoever has just called `wake`. */
  now(): number;
}

/** The deadlines of all asks of one run queue. */
export class AskDeadlines {
  readonly queue: AskTime;
  /** How many asks are open. */
  waiting = 0;
  private readonly lists = new Map<number, DeadlineList>();
  /** What was asked for last: most askers ask for the same. */
  private lastMs = 0;
  private lastList: DeadlineList | undefined = undefined;
  private held = false;
  private closed = false;
  private keeper: NodeJS.Timeout | undefined = undefined;

  constructor(queue: AskTime) {
    this.queue = queue;
  }

  /** The list for a timeout. Long ones are rounded up by less than 1%, so that there are never many lists. */
  list(timeoutMs: number): DeadlineList {
    if (timeoutMs === this.lastMs && this.lastList !== undefined) return this.lastList;
    let ms = Math.max(1, Math.ceil(timeoutMs));
    if (ms > 256) {
      const step = 2 ** (Math.floor(Math.log2(ms)) - 7);
      ms = Math.ceil(ms / step) * step;
    }
    let list = this.lists.get(ms);
    if (list === undefined) {
      list = new DeadlineList(ms, this);
      this.lists.set(ms, list);
    }
    this.lastMs = timeoutMs;
    this.lastList = list;
    return list;
  }

  added(): void {
    if (this.waiting++ === 0 && !this.held) this.hold(true);
  }

  removed(): void {
    if (--this.waiting === 0 && !this.queue.draining) this.hold(false);
  }

  /** Called after each drain: what keeps the process alive is not let go of between two asks of one. */
  drained(): void {
    if (this.waiting === 0 && this.held) this.hold(false);
  }

  forget(list: DeadlineList): void {
    this.lists.delete(list.ms);
    this.lastList = undefined;
  }

  /** The system has ended: no timer stays once the last ask is over. */
  close(): void {
    this.closed = true;
    if (this.waiting === 0) this.disarm();
  }

  private disarm(): void {
    for (const list of this.lists.values()) list.disarm();
    this.lists.clear();
    this.lastList = undefined;
    clearInterval(this.keeper);
    this.keeper = undefined;
  }

  /** The lists' timers outlive their asks and so are unref'd; a timer of its own keeps the process alive. */
  private hold(on: boolean): void {
    this.held = on;
    if (this.queue.clock !== nodeClock) {
      // On a clock of a test a timer that serves nobody would be one more to go to.
      if (!on) this.disarm();
    } else if (this.closed && !on) this.disarm();
    else if (on) {
      if (this.keeper === undefined) this.keeper = setInterval(() => {}, MAX_TIMER_MS);
      else this.keeper.ref();
    } else this.keeper?.unref();
  }
}
