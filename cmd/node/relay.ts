/** Publishing the outbox, by one of the processes that share a database. */
import type { Placement } from '../../actors/service/placement.ts';
import { startSingleton } from '../../actors/service/singleton.ts';
import type { Bus } from '../../proto/ports/bus.ts';
import type { Log } from '../../proto/ports/log.ts';
import type { Db } from '../../storage/db.ts';
import { outboxStore } from '../../storage/outbox.ts';
import type { SystemRef } from '../../supervision/index.ts';
import { relayOutbox } from '../../transports/bus/relay.ts';

/** What relaying needs. */
interface RelayParts {
  readonly db: Db;
  readonly bus: Bus;
  /** A member with the role `outbox`. */
  readonly placement: Placement;
  readonly log: Log;
}

/**
 * Lets this process publish the outbox while it is the one that should; ends with `system`. Before the process joins.
 */
export function startOutboxRelay(system: SystemRef, { db, bus, placement, log }: RelayParts): void {
  const work = (signal: AbortSignal) => relayOutbox({ store: outboxStore(db), bus, log, signal });
  startSingleton(system, { service: 'outbox', name: 'relay', placement, log, work });
}
