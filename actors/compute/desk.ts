/**
 * The desk of the compute service: calls that are no entity's, answered where they were asked, however long the answer
 * is.
 */
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

/** The desk. */
export function desk(deps: ComputeDeps) {
  const table = handlers<undefined>(listingHandler(deps));
  return pool('compute/desk', table, { name: 'desk', concurrency: CONCURRENCY, queue: QUEUE });
}
