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
  if (problem !== undefined) {
    throw new Refusal('invalid_request', {
      message: `The request body is not valid: scopes ${problem}`,
      fields: [{ path: 'scopes', message: problem }],
    });
  }
  return Object.fromEntries(Object.entries(scopes).map(([key, actions]) => [key, [...new Set(actions)]]));
}
