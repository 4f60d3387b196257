import type { Behaviour } from './cell/cell-parts.ts';
import { atLeast, SpawnError } from './errors.ts';
import type { ChildSpec, SupervisorSpec } from './supervisor/child-spec.ts';
import type { Backoff, Intensity, MailboxOptions } from './types.ts';

// The types say what an option may be, but JavaScript, JSON and a computed NaN say otherwise. Each check throws
// SpawnError `invalid`, whose message begins with the option.

const POLICIES: readonly unknown[] = ['reject', 'drop-oldest', 'drop-newest'];
const STRATEGIES: readonly unknown[] = ['one-for-one', 'one-for-all', 'rest-for-one'];
const RESTARTS: readonly unknown[] = ['permanent', 'transient', 'temporary'];

export function checkHandler(f: unknown): void {
  mustBeFunction(f, 'the handler');
}

/** Checks the options that an actor is spawned with, but for its name. */
export function checkBehaviour(options: Behaviour): void {
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

/** Checks a supervisor and its children. */
export function checkSupervisor(spec: SupervisorSpec): void {
  mustBeOneOf(STRATEGIES, spec.strategy, 'strategy');
  checkIntensity(spec.intensity);
  if (spec.backoff !== undefined) checkBackoff(spec.backoff);
  if (!Array.isArray(spec.children)) throw new SpawnError('invalid', 'children must be an array');
  for (const child of spec.children) checkChild(child);
}

/** Checks one child of a supervisor. */
export function checkChild(spec: ChildSpec): void {
  mustBeText(spec.id, 'id');
  mustBeFunction(spec.start, 'start');
  mustBeOneOf(RESTARTS, spec.restart, 'restart');
  atLeast(0, spec.shutdownMs, 'shutdownMs');
}

function checkMailbox({ capacity, policy }: MailboxOptions): void {
  if (capacity !== undefined) atLeast(1, capacity, 'mailbox.capacity');
  if (policy !== undefined) mustBeOneOf(POLICIES, policy, 'mailbox.policy');
}

function checkIntensity({ max, withinMs }: Intensity): void {
  atLeast(0, max, 'intensity.max');
  atLeast(0, withinMs, 'intensity.withinMs');
}

function checkBackoff({ minMs, maxMs }: Backoff): void {
  atLeast(0, minMs, 'backoff.minMs');
  atLeast(minMs, maxMs, 'backoff.maxMs');
}

function mustBeFunction(value: unknown, what: string): void {
  if (typeof value !== 'function') throw new SpawnError('invalid', `${what} must be a function`);
}

function mustBeText(value: unknown, what: string): void {
  if (typeof value !== 'string' || value === '') throw new SpawnError('invalid', `${what} must be a text`);
}

function mustBeOneOf(known: readonly unknown[], value: unknown, what: string): void {
  if (known.includes(value)) return;
  throw new SpawnError('invalid', `${what} must be one of ${known.join(', ')}, not ${String(value)}`);
}
