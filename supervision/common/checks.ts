/** Checks of options that actors and supervisors share. */
import { atLeast, SpawnError } from './errors.ts';
import type { Backoff, Intensity } from './types.ts';

// The types say what an option may be, but JavaScript, JSON and a computed NaN say otherwise. Each check throws
// SpawnError `invalid`, whose message begins with the option.

/** How many restarts there may be in which time. */
export function checkIntensity({ max, withinMs }: Intensity): void {
  atLeast(0, max, 'intensity.max');
  atLeast(0, withinMs, 'intensity.withinMs');
}

/** The shortest and the longest pause. */
export function checkBackoff({ minMs, maxMs }: Backoff): void {
  atLeast(0, minMs, 'backoff.minMs');
  atLeast(minMs, maxMs, 'backoff.maxMs');
}

/** `what` begins the message. */
export function mustBeFunction(value: unknown, what: string): void {
  if (typeof value !== 'function') throw new SpawnError('invalid', `${what} must be a function`);
}

/** A text that is not empty. */
export function mustBeText(value: unknown, what: string): void {
  if (typeof value !== 'string' || value === '') throw new SpawnError('invalid', `${what} must be a text`);
}

/** One of those that are known. */
export function mustBeOneOf(known: readonly unknown[], value: unknown, what: string): void {
  if (known.includes(value)) return;
  throw new SpawnError('invalid', `${what} must be one of ${known.join(', ')}, not ${String(value)}`);
}
