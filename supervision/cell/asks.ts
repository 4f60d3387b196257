import { isPromise } from '../../lib/waiting.ts';
import { ActorError } from '../errors.ts';
import { Ref } from '../ref.ts';
import type { AskDeadlines, DeadlineList, WaitingAsk } from './ask-deadlines.ts';
import type { DeadLetters } from './dead-letters.ts';

/** The two ends of a promise, with the type of the reply forgotten: methods compare their parameters both ways. */
interface Settle {
  resolve(value: unknown): void;
  reject(error: unknown): void;
}

/** The deadline of an ask whose asker gave up. */
const CANCELLED = -1;
/** Of asks whose handlers want to know when nobody waits any more. */
const watched = new WeakMap<Ask, AbortController>();

/** What an ask needs of the system of the actor that is asked. */
interface AskSystem {
  readonly letters: DeadLetters;
  readonly queue: { readonly ms: number; readonly deadlines: Pick<AskDeadlines, 'list'> };
}

/** What an ask fails with whose signal is aborted. */
export function givenUp(target: string, { reason: cause }: { readonly reason: unknown }): ActorError {
  return new ActorError('cancelled', `the asker of ${target} gave up`, { cause });
}

/**
 * The address of an asker: takes one reply, then is over. Over also when its deadline passed, or when it is known that
 * no reply will come (refused, stopped, crashed). May be forwarded like any ref.
 */
export class Ask extends Ref<unknown> implements WaitingAsk {
  before: WaitingAsk | undefined = undefined;
  after: WaitingAsk | undefined = undefined;
  list: DeadlineList | undefined = undefined;
  deadline = 0;
  /** Coarse time of asking. */
  readonly at: number;
  private readonly resolve: Settle['resolve'];
  private readonly reject: Settle['reject'];
  private readonly target: { readonly path: string };
  private readonly letters: DeadLetters;

  constructor(
    target: { readonly path: string },
    { letters, queue }: AskSystem,
    timeoutMs: number,
    resolve: Settle['resolve'],
    reject: Settle['reject'],
  ) {
    super();
    this.target = target;
    this.letters = letters;
    this.resolve = resolve;
    this.reject = reject;
    this.at = queue.ms;
    queue.deadlines.list(timeoutMs).add(this);
  }

  override get name(): string {
    return '$ask';
  }

  override get path(): string {
    return `${this.target.path}#ask`;
  }

  /** The context of a trace that it belongs to. */
  get trace(): string | undefined {
    return undefined;
  }

  /** Whether a reply would still be heard. */
  get open(): boolean {
    return this.list !== undefined;
  }

  override deliver(msg: unknown): void {
    if (this.list === undefined) {
      this.letters.add(this.path, 'ask', 'late', msg);
      return;
    }
    if (isPromise(msg)) {
      this.deliverWhenSettled(msg);
      return;
    }
    this.list.remove(this);
    this.resolve(msg);
  }

  /** For a reply whose `await` was forgotten: the deadline goes on, and the ask fails with no error but its own. */
  private deliverWhenSettled(reply: PromiseLike<unknown>): void {
    Promise.resolve(reply).then(
      (value) => this.deliver(value),
      (cause: unknown) => this.fail(new ActorError('crashed', `${this.target.path} failed to reply`, { cause })),
    );
  }

  /** Ends the ask without a reply; nothing happens when it is over. */
  fail(error: ActorError): void {
    if (this.list === undefined) return;
    this.list.remove(this);
    this.reject(error);
  }

  /** Forgets the ask: whoever made it settles its promise otherwise. */
  drop(): void {
    this.list?.remove(this);
  }

  expire(): void {
    const error = new ActorError('timeout', `${this.target.path} did not reply in time`);
    this.reject(error);
    watched.get(this)?.abort(error);
  }

  /** Ends the ask because its asker gave up; nothing happens when it is over. */
  cancel(cause: unknown): void {
    if (this.list === undefined) return;
    this.list.remove(this);
    this.deadline = CANCELLED;
    const error = givenUp(this.target.path, { reason: cause });
    this.reject(error);
    watched.get(this)?.abort(error);
  }

  /** Whether its asker gave up. */
  get isCancelled(): boolean {
    return this.deadline === CANCELLED;
  }

  /** Cancels the ask when `signal` is aborted, until `settled`. */
  cancelWith(signal: AbortSignal, settled: Promise<unknown>): void {
    const cancel = (): void => this.cancel(signal.reason);
    const ended = (): void => signal.removeEventListener('abort', cancel);
    signal.addEventListener('abort', cancel, { once: true });
    settled.then(ended, ended);
  }

  /** Aborted when its asker gives up or its deadline is over. */
  get signal(): AbortSignal {
    if (!this.open) return AbortSignal.abort();
    let controller = watched.get(this);
    if (controller === undefined) {
      controller = new AbortController();
      watched.set(this, controller);
    }
    return controller.signal;
  }
}
