import { CodedError } from '../../lib/errors.ts';

/**
 * What an ask can end with instead of a reply.
 *  timeout     nobody replied within the deadline; the message has no effect unless its handler had begun
 *  overloaded  the mailbox was full, the message was not taken
 *  stopped     the actor has ended or is ending, the message was not handled to its end
 *  crashed     the handler threw before it replied, or the actor could not be started; see `cause`
 *  not_found   there is no such entity
 *  cancelled   the signal of the ask was aborted; the message has no effect unless its handler had begun
 */
export type ActorErrorCode = 'timeout' | 'overloaded' | 'stopped' | 'crashed' | 'not_found' | 'cancelled';

/** The one error `query`, `ask` and a spawn under a stopped parent fail with. `cause` holds what was thrown. */
export class ActorError extends Error {
  readonly code: ActorErrorCode;
  /** With `stopped`: a handler may have begun with the message. False: it had no effect, and may be sent again. */
  readonly begun: boolean;
  constructor(code: ActorErrorCode, message: string, options?: { cause?: unknown; begun?: boolean }) {
    super(message, options !== undefined && 'cause' in options ? { cause: options.cause } : undefined);
    this.name = 'ActorError';
    this.code = code;
    this.begun = options?.begun ?? false;
  }
}

/**
 * `name_taken`: a living sibling has this name. `invalid`: an option or an argument is out of its range.
 * Of the verbs for a supervisor's children, `not_found`: there is no such child; `running`, `restarting`: it is.
 */
export type SpawnErrorCode = 'name_taken' | 'invalid' | 'not_found' | 'running' | 'restarting';

/** A mistake of the caller, thrown at the call: a name in use, an option out of range, a ref of the wrong kind. */
export class SpawnError extends CodedError<SpawnErrorCode> {}

/** Returns `value` when it is a finite number of at least `min`; throws SpawnError `invalid` naming it otherwise. */
export function atLeast(min: number, value: number, what: string): number {
  if (typeof value === 'number' && value >= min && value < Number.POSITIVE_INFINITY) return value;
  throw new SpawnError('invalid', `${what} must be a finite number of at least ${min}, not ${String(value)}`);
}
