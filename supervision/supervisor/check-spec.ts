/** Checks of a supervisor and its children. */
import { checkBackoff, checkIntensity, mustBeFunction, mustBeOneOf, mustBeText } from '../common/checks.ts';
import { atLeast, SpawnError } from '../common/errors.ts';
import type { ChildSpec, SupervisorSpec } from './child-spec.ts';

const STRATEGIES: readonly unknown[] = ['one-for-one', 'one-for-all', 'rest-for-one'];
const RESTARTS: readonly unknown[] = ['permanent', 'transient', 'temporary'];

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
