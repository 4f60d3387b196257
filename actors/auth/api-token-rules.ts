/** What a token may be, decided without looking anywhere. */
import { LIFETIMES } from '../../proto/api-tokens.ts';
import { Refusal } from '../../proto/errors.ts';
import { type Scopes, scopesProblem } from '../../proto/scopes.ts';

/** Unix seconds at which a token made at `now` (unix ms) with this choice ends; undefined: never. */
export function expiryOf(choice: keyof typeof LIFETIMES, now: number): number | undefined {
  const seconds = LIFETIMES[choice];
  return seconds === undefined ? undefined : Math.floor(now / 1000) + seconds;
}

/** The scopes as they are kept, each action once. Refuses `invalid_request` with what is wrong. */
export function acceptScopes(scopes: Scopes, userId: string): Scopes {
  const problem = scopesProblem(scopes, userId);
  if (problem !== undefined) throw invalidScopes(problem);
  return Object.fromEntries(Object.entries(scopes).map(([key, actions]) => [key, [...new Set(actions)]]));
}

/**
 * Refuses `invalid_request` for scopes that grant nothing: a token's own are never changed, so it could never do anything. A service account's may
 * be empty, and are changed later.
 */
export function refuseNothing(scopes: Scopes): void {
  if (Object.values(scopes).every((actions) => actions.length === 0))
    throw invalidScopes('must grant something: name at least one scope with at least one action');
}

function invalidScopes(problem: string): Refusal {
  return new Refusal('invalid_request', {
    message: `The request body is not valid: scopes ${problem}`,
    fields: [{ path: 'scopes', message: problem }],
  });
}
