/** SQL of private networks: a network is nothing but what the containers of its user say. */
import { z } from 'zod';
import { MAX_PLACE } from '../../proto/ports/engine.ts';
import type { Tx } from '../db.ts';
import { type ContainerRow, type NetworkMembership, updateContainer } from './containers.ts';

const memberRow = z.object({
  id: z.string(),
  name: z.string(),
  isGoing: z.boolean(),
  alias: z.string().nullable(),
  place: z.number(),
  /** The place of the one whose place it took last; null: there was none. */
  formerPlace: z.number().nullable(),
  /** That one is still there. */
  hasPredecessor: z.boolean(),
});

/** A member of a private network. */
export type NetworkMember = z.output<typeof memberRow>;

/**
 * The members of a network of a user, those that are being deleted included. Until the transaction ends nobody else
 * joins a network of this user.
 */
export async function membersOf(tx: Tx, userId: string, network: string): Promise<readonly NetworkMember[]> {
  await tx.run(`select pg_advisory_xact_lock(hashtextextended('private_networks/' || $1, 0))`, [userId]);
  return tx.many(
    memberRow,
    `select id, name, desired = 'deleted' as "isGoing", network_alias as alias, network_place as place,
       network_former_place as "formerPlace", predecessor_since is not null as "hasPredecessor" from containers
     where user_id = $1 and network = $2 order by network_place`,
    [userId, network],
  );
}

/**
 * The places that no member has, nor the one whose place it took: the lowest first, and then those which members had
 * before, since their addresses may still be remembered.
 */
export function freePlaces(
  members: readonly Pick<NetworkMember, 'place' | 'formerPlace' | 'hasPredecessor'>[],
): readonly number[] {
  const places = Array.from({ length: MAX_PLACE + 1 }, (_, i) => i + 1);
  const free = places.filter((place) => !members.some((member) => member.place === place));
  const hadBy = (place: number) => members.filter(({ formerPlace }) => formerPlace === place);
  const left = free.filter((place) => hadBy(place).length > 0);
  return [
    ...free.filter((place) => !left.includes(place)),
    ...left.filter((place) => !hadBy(place).some(({ hasPredecessor }) => hasPredecessor)),
  ];
}

/** Puts a container into a network, or into none. Returns the row; undefined when it is gone or being deleted. */
export function setMembership(
  tx: Tx,
  id: string,
  network: NetworkMembership | undefined,
): Promise<ContainerRow | undefined> {
  const values = [network?.name ?? null, network?.alias ?? null, network?.place ?? null];
  return updateContainer(
    tx,
    id,
    `network = $2, network_alias = $3, network_place = $4,
       network_former_place = case when network = $2 then network_former_place end`,
    values,
  );
}
