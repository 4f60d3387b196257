/** A cluster of one node, for services under test. */
import { newId } from '../../../proto/ids.ts';
import type { Bus } from '../../../proto/ports/bus.ts';
import type { Log } from '../../../proto/ports/log.ts';
import type { Db } from '../../../storage/db.ts';
import { leaseStore } from '../../../storage/placement/leases.ts';
import type { SystemRef } from '../../../supervision/index.ts';
import { Cluster, type Timings } from '../../../supervision/placement/index.ts';

/** Into how many shards each service is cut. */
export const SHARDS = 16;

/** What the node is made of; `db` is for its leases. */
export interface HomeParts {
  readonly system: SystemRef;
  readonly db: Db;
  readonly bus: Bus;
  readonly log: Log;
  readonly timings?: Partial<Timings>;
  /** Services whose entities it may hold. Default: auth. */
  readonly roles?: readonly string[];
}

/** A node that has not joined yet: `join` once the services stand, `leave` before the system stops. */
export function testHome({ system, db, bus, log, timings = {}, roles = ['auth'] }: HomeParts): Cluster {
  const self = { id: newId(), roles, version: 'test', address: 'test' };
  return new Cluster({ parent: system, self, store: leaseStore(db), bus, log, shards: SHARDS, timings });
}
