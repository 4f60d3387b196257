/**
 * The desk of the compute service: calls that are no entity's, answered where they were asked, however long the answer
 * is.
 */
import { listAllContainers } from '../../proto/compute/endpoints.ts';
import { allContainers } from '../../storage/compute/containers.ts';
import { type AnyRef, type Ref, spawnStateless } from '../../supervision/index.ts';
import { type CallMessage, type Handler, handleCall, handler, handlers } from '../service/dispatch.ts';
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

/** Starts the desk under `parent`. */
export function startDesk(parent: AnyRef, deps: ComputeDeps): Ref<CallMessage> {
  const table = handlers<undefined>(listingHandler(deps));
  return spawnStateless<CallMessage>(parent, (message) => handleCall(table, undefined, message), {
    name: 'desk',
    kind: 'compute/desk',
    concurrency: CONCURRENCY,
    mailbox: { capacity: QUEUE, policy: 'reject' },
  });
}
