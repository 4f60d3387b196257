import { clock, isDraining, onDrained } from './run-queue.ts';
import { MAX_TIMER_MS } from './timer.ts';

/** Something that waits until `deadline` (on the clock of performance.now). */
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
  private first: WaitingAsk | undefined = undefined;
  private last: WaitingAsk | undefined = undefined;
  private timer: NodeJS.Timeout | undefined = undefined;

  constructor(ms: number) {
    this.ms = ms;
  }

  add(item: WaitingAsk): void {
    item.list = this;
    item.deadline = (isDraining() ? clock.exact : performance.now()) + this.ms;
    item.before = this.last;
    if (this.last === undefined) this.first = item;
    else this.last.after = item;
    this.last = item;
    if (this.timer === undefined) this.arm(this.ms);
    if (waiting++ === 0 && !held) hold(true);
  }

  remove(item: WaitingAsk): void {
    if (item.before === undefined) this.first = item.after;
    else item.before.after = item.after;
    if (item.after === undefined) this.last = item.before;
    else item.after.before = item.before;
    item.before = undefined;
    item.after = undefined;
    item.list = undefined;
    if (--waiting === 0 && !isDraining()) hold(false);
  }

  private arm(ms: number): void {
    this.timer = setTimeout(() => this.fire(), Math.min(ms, MAX_TIMER_MS)).unref();
  }

  private fire(): void {
    const now = performance.now();
    while (this.first !== undefined && this.first.deadline <= now) {
      const item = this.first;
      this.remove(item);
      item.expire();
    }
    if (this.first !== undefined) this.arm(Math.max(1, Math.ceil(this.first.deadline - now)));
    else {
      this.timer = undefined;
      lists.delete(this.ms);
    }
  }
}

const lists = new Map<number, DeadlineList>();
let waiting = 0;
let held = false;
let keeper: NodeJS.Timeout | undefined;

/** The lists' timers outlive their asks and so are unref'd; this one keeps the process alive while an ask is open. */
function hold(on: boolean): void {
  held = on;
  if (on) {
    if (keeper === undefined) keeper = setInterval(() => {}, MAX_TIMER_MS);
    else keeper.ref();
  } else keeper?.unref();
}

onDrained(() => {
  if (waiting === 0 && held) hold(false);
});

/** The list for a timeout. Long ones are rounded up by less than 1%, so that there are never many lists. */
export function deadlineList(timeoutMs: number): DeadlineList {
  let ms = Math.max(1, Math.ceil(timeoutMs));
  if (ms > 256) {
    const step = 2 ** (Math.floor(Math.log2(ms)) - 7);
    ms = Math.ceil(ms / step) * step;
  }
  let list = lists.get(ms);
  if (list === undefined) {
    list = new DeadlineList(ms);
    lists.set(ms, list);
  }
  return list;
}

/** How many asks are open in this process. */
export function openAsks(): number {
  return waiting;
}
