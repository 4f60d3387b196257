/** The administrator on all containers: no entity has them, so a pool answers on the node that was asked. */

import { deleteContainer, stopContainer } from '../../proto/compute/endpoints.ts';
import { containerCreatedSchema } from '../../proto/compute/fields.ts';
import { adminDeleteContainer, adminStopContainer, listAllContainers } from '../../proto/compute/images.ts';
import type { Call } from '../../proto/endpoint.ts';
import { Refusal } from '../../proto/errors.ts';
import { allContainers, containerOwner } from '../../storage/compute/containers.ts';
import { callerOf, type Handler, handler, handlers } from '../service/dispatch.ts';
import { type EntitiesPart, pool } from '../service/parts.ts';
import type { ComputeDeps } from './deps.ts';
import type { ContainerMail } from './placed.ts';
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

/** The pool that answers. It stops and deletes containers as their owners could. */
export function listing(deps: ComputeDeps, containers: EntitiesPart<ContainerMail>) {
  const asOwner = async (call: Call<{ id: string }>): Promise<Call> => {
    const { id } = call.params;
    const owner = await containerOwner(deps.db, id);
    if (owner === undefined) throw new Refusal('not_found', { message: `There is no container ${id}.` });
    const { userId, username, tokenId, expiresAt } = callerOf(call);
    const by = { userId, username };
    // Written out, since it is asked for when it is read: `...call` leaves it behind.
    const { address } = call;
    return {
      ...call,
      address,
      caller: { kind: 'session', userId: owner, username, isAdmin: false, tokenId, expiresAt, by },
    };
  };
  const table = handlers<undefined>(
    listingHandler(deps),
    handler(adminStopContainer, async (_: undefined, call) =>
      containerCreatedSchema.parse(await containers.call(stopContainer, await asOwner(call))),
    ),
    handler(adminDeleteContainer, async (_: undefined, call) => {
      await containers.call(deleteContainer, await asOwner(call));
      return { status: 'ok' as const };
    }),
  );
  return pool('compute/listing', table, { name: 'listing', concurrency: CONCURRENCY, queue: QUEUE });
}
