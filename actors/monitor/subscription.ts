/** Subscriptions: one for all clients that came to one endpoint with one token. */
import { type AnyEndpoint, type Caller, expiryMs } from '../../proto/endpoint.ts';
import { clusterEvents, clusterSocket, healthEvents } from '../../proto/monitor/endpoints.ts';
import type { Broadcaster, Subscription } from './broadcaster.ts';
import { audienceOf, type SnapshotKind } from './snapshots.ts';

/**
 * Gives the subscription of a caller at an endpoint: the same one while the caller is the same object, which it is as
 * long as its token is known.
 */
export function subscriptions(broadcaster: Broadcaster): (caller: Caller, endpoint: AnyEndpoint) => Subscription {
  const known = new WeakMap<Caller, Map<AnyEndpoint, Subscription>>();
  return (caller, endpoint) => {
    let ofCaller = known.get(caller);
    if (ofCaller === undefined) {
      ofCaller = new Map();
      known.set(caller, ofCaller);
    }
    let subscription = ofCaller.get(endpoint);
    if (subscription === undefined) {
      subscription = {
        broadcaster,
        audience: audienceOf(caller),
        userId: caller.userId,
        kinds: kindsOf(endpoint),
        isCombined: endpoint.name === healthEvents.name,
        expiresAt: endpoint.socket ? Number.POSITIVE_INFINITY : expiryMs(caller),
      };
      ofCaller.set(endpoint, subscription);
    }
    return subscription;
  };
}

function kindsOf({ name }: AnyEndpoint): readonly SnapshotKind[] {
  if (name === healthEvents.name) return ['cluster', 'pods'];
  return name === clusterEvents.name || name === clusterSocket.name ? ['cluster'] : ['pods'];
}
