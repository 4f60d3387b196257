/** What a service that runs alone shares with the platform's other processes: entities, and publishing the outbox. */
import { type Placement, startSingleton } from '../../actors/service/placement.ts';
import type { SharedSecret } from '../../proto/auth/shared-secret.ts';
import type { Bus } from '../../proto/ports/bus.ts';
import type { Log } from '../../proto/ports/log.ts';
import type { Db } from '../../storage/db.ts';
import { outboxStore } from '../../storage/outbox.ts';
import type { SystemRef } from '../../supervision/index.ts';
import { timingsOf } from '../../supervision/placement/index.ts';
import { relayOutbox } from '../../transports/bus/relay.ts';
import type { Environment } from '../config/config.ts';
import { openMembership } from './membership.ts';
import type { Teardown } from './shutdown.ts';

interface SharedOptions {
  readonly environment: Pick<Environment, 'CLUSTER_SHARDS' | 'CLUSTER_WEIGHT' | 'CLUSTER_HEARTBEAT'>;
  readonly db: Db;
  readonly bus: Bus;
  readonly system: SystemRef;
  readonly log: Log;
  readonly teardown: Teardown;
  /** JWT_SECRET. */
  readonly secret: SharedSecret;
  /** Whether the bus reaches other processes. */
  readonly isShared: boolean;
  /** Whether nobody else may be there unless it is so: it holds entities of which there is one. */
  readonly mustBeAlone: boolean;
  /** Services whose entities the process may hold, besides the outbox. */
  readonly roles: readonly string[];
  readonly isLeaving: () => boolean;
}

/** The process as one of several. */
interface Shared {
  /** Undefined when the bus ends at this process and others may be there: then it knows of none. */
  readonly placement: Placement | undefined;
  /**
   * Begins to hold entities and to publish the outbox; after the services were started, before they listen: an event
   * whose stream is not there yet would be overtaken by later ones.
   */
  join(): Promise<void>;
}

/**
 * With a bus that reaches other processes, and where it must be alone without, this one becomes a member of the
 * cluster, and one of all members publishes the outbox. Without, it publishes by itself, whoever else does: the stream
 * takes an event once. Ends with `teardown`. Throws CliError as `openMembership`.
 */
export async function openShared(options: SharedOptions): Promise<Shared> {
  const { db, bus, system, log, teardown, isLeaving, roles, isShared, mustBeAlone, secret } = options;
  if (!isShared && !mustBeAlone) {
    const join = async () => {
      const relaying = new AbortController();
      const relayed = relayOutbox({ store: outboxStore(db), bus, log, signal: relaying.signal });
      teardown.add('outbox relay', async () => {
        relaying.abort();
        await relayed;
      });
    };
    return { placement: undefined, join };
  }
  const onProgress = (line: string) => log.warn({}, line);
  const { CLUSTER_SHARDS: shards, CLUSTER_WEIGHT: weight, CLUSTER_HEARTBEAT: beatMs } = options.environment;
  const membership = await openMembership({
    shards,
    weight,
    timings: timingsOf(beatMs),
    db,
    system,
    bus,
    isShared,
    secret,
    log,
    onProgress,
    isLeaving,
    roles: [...roles, 'outbox'],
  });
  teardown.add('membership', () => membership.leave());
  const { placement } = membership;
  return {
    placement,
    join: () => {
      startOutboxRelay(system, { db, bus, placement, log });
      return membership.join();
    },
  };
}

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
