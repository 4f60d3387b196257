/** Which rule asks the visitors of a mapped host. */
import type { PortGuard } from '../../../proto/gateway/port-guard.ts';
import type { MappedHost } from '../../../proto/ports/acme.ts';
import type { ContainerTarget } from '../deps.ts';

/** The containers that are known, by id. */
interface KnownContainers {
  readonly containers: ReadonlyMap<string, ContainerTarget>;
}

/**
 * What asks visitors of a mapped host: the rule of its port, or else the strictest of those that lead to the same port
 * inside. Hostnames are mapped by whoever may map hostnames: that is no right to open what a rule has closed. Undefined
 * where everybody gets through.
 */
export function guardAt(known: KnownContainers | undefined, { containerId, targetPort }: MappedHost) {
  const container = known?.containers.get(containerId);
  if (container?.guards === undefined) return undefined;
  if (container.ports.has(targetPort)) return container.guards.get(targetPort);
  let strictest: PortGuard | undefined;
  for (const guard of container.guards.values())
    if (container.ports.get(guard.port) === targetPort && isStricter(guard, strictest)) strictest = guard;
  return strictest;
}

/** Whether a guard lets fewer in than another: its owner alone. Of two alike it is the one of the lower port. */
function isStricter(one: PortGuard, other: PortGuard | undefined): boolean {
  if (other === undefined) return true;
  return (one.hash === null) === (other.hash === null) ? one.port < other.port : one.hash === null;
}
