/** What a token may be, decided without looking anywhere. */
import { LIFETIMES } from '../../../proto/auth/api-tokens.ts';
import { type Scopes, scopesProblem } from '../../../proto/scopes.ts';
import { invalidField } from '../../../proto/validation-messages.ts';

/** Unix seconds at which a token made at `now` (unix ms) with this choice ends; undefined: never. */
export function expiryOf(choice: keyof typeof LIFETIMES, now: number): number | undefined {
  const seconds = LIFETIMES[choice];
  return seconds === undefined ? undefined : Math.floor(now / 1000) + seconds;
}

/** The scopes as they are kept, each action once. Refuses `invalid_request` with what is wrong. */
export function acceptScopes(scopes: Scopes, userId: string): Scopes {
  const problem = scopesProblem(scopes, userId);
  if (problem !== undefined) throw invalidField('scopes', problem);
  return Object.fromEntries(Object.entries(scopes).map(([key, actions]) => [key, [...new Set(actions)]]));
}

/**
 * Refuses `invalid_request` for scopes that grant nothing: a token's own are never changed, so it could never do
 * anything. A service account's may be empty, and are changed later.
 */
export function refuseNothing(scopes: Scopes): void {
  if (Object.values(scopes).every((actions) => actions.length === 0))
    throw invalidField('scopes', 'must grant something: name at least one scope with at least one action');
}
