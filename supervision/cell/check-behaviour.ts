/** Checks of what an actor is spawned with. */
import { checkBackoff, checkIntensity, mustBeFunction, mustBeOneOf, mustBeText } from '../common/checks.ts';
import { atLeast } from '../common/errors.ts';
import type { MailboxOptions } from '../common/types.ts';
import type { Behaviour } from './behaviour.ts';

const POLICIES: readonly unknown[] = ['reject', 'drop-oldest', 'drop-newest'];

/** Checks what an actor is spawned with, but for its name. */
export function checkBehaviour(f: unknown, options: Behaviour): void {
  mustBeFunction(f, 'the handler');
  if (options.kind !== undefined) mustBeText(options.kind, 'kind');
  if (options.shutdownAfter !== undefined) atLeast(0, options.shutdownAfter, 'shutdownAfter');
  if (options.shutdownMs !== undefined) atLeast(0, options.shutdownMs, 'shutdownMs');
  if (options.decisionMs !== undefined) atLeast(0, options.decisionMs, 'decisionMs');
  if (options.mailbox !== undefined) checkMailbox(options.mailbox);
  if (options.intensity !== undefined) checkIntensity(options.intensity);
  if (options.backoff !== undefined) checkBackoff(options.backoff);
  if (options.onCrash !== undefined) mustBeFunction(options.onCrash, 'onCrash');
  if (options.afterStop !== undefined) mustBeFunction(options.afterStop, 'afterStop');
  if (options.initialStateFunc !== undefined) mustBeFunction(options.initialStateFunc, 'initialStateFunc');
}

function checkMailbox({ capacity, policy }: MailboxOptions): void {
  if (capacity !== undefined) atLeast(1, capacity, 'mailbox.capacity');
  if (policy !== undefined) mustBeOneOf(POLICIES, policy, 'mailbox.policy');
}
