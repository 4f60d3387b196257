/** The listing of all containers: it is no entity's, so a pool answers on the node that was asked. */
import { listAllContainers } from '../../proto/compute/endpoints.ts';
import { allContainers } from '../../storage/compute/containers.ts';
import { type Handler, handler, handlers } from '../service/dispatch.ts';
import { pool } from '../service/parts.ts';
import type { ComputeDeps } from './deps.ts';
import { adminView } from './views.ts';

/**
 * Listings made at once, each of thousands of rows perhaps, and those that wait. Past that the answer is `overloaded`.
 */
const CONCURRENCY = 4;
const QUEUE = 32;

/** The listing for the administrator. */
export function listingHandler<C>(deps: ComputeDeps): Handler<C> {
  return handler(listAllContainers, async (_: C) => (await allContainers(deps.db)).map((row) => adminView(row, deps)));
}

/** The pool that makes it. */
export function listing(deps: ComputeDeps) {
  const table = handlers<undefined>(listingHandler(deps));
  return pool('compute/listing', table, { name: 'listing', concurrency: CONCURRENCY, queue: QUEUE });
}
