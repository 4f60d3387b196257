import type { NeededScope } from '../../proto/auth/tokens.ts';
import type { AnyEndpoint, Caller } from '../../proto/endpoint.ts';

/** The scope an API token of `caller` needs for the endpoint; undefined when none is needed. */
export function neededScope(
  endpoint: AnyEndpoint,
  params: Readonly<Record<string, string>>,
  caller: Caller,
): NeededScope | undefined {
  if (endpoint.scope === undefined) return undefined;
  return { key: endpoint.scope.key(caller.userId, params), action: endpoint.scope.action };
}
