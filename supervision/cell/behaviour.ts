import type { Decision } from '../decisions.ts';
import type { AnyRef } from '../ref.ts';
import type { Backoff, Intensity, MailboxOptions } from '../types.ts';

/**
 * The options of spawn and spawnStateless with their types forgotten. Its functions are written as methods, because
 * the parameters of methods are compared both ways: here the engine stops knowing what a message is.
 */
export interface Behaviour {
  readonly name?: string;
  readonly kind?: string;
  readonly shutdownAfter?: number;
  readonly mailbox?: MailboxOptions;
  readonly intensity?: Intensity;
  readonly backoff?: Backoff;
  readonly shutdownMs?: number;
  readonly initialState?: unknown;
  initialStateFunc?(ctx: unknown): unknown;
  onCrash?(msg: unknown, error: unknown, ctx: unknown, child: AnyRef | undefined): Decision | Promise<Decision>;
  afterStop?(state: unknown, ctx: unknown): void | Promise<void>;
}

/** Whether a handler's result has to be waited for. */
export function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof value === 'object' && value !== null && 'then' in value && typeof value.then === 'function';
}
