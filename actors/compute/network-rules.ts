/** What a call says of a container's private network, and who may be in one. */

import { ofContainer } from '../../proto/compute/fields.ts';
import type { Caller } from '../../proto/endpoint.ts';
import { Refusal } from '../../proto/errors.ts';
import { type Engine, EngineError, MAX_PLACE, type PrivateNetwork } from '../../proto/ports/engine.ts';
import { grants } from '../../proto/scopes.ts';
import { invalidField } from '../../proto/validation-messages.ts';
import type { ContainerRow, NetworkMembership } from '../../storage/compute/containers.ts';
import { freePlaces, membersOf, type NetworkMember } from '../../storage/compute/networks.ts';
import type { Tx } from '../../storage/db.ts';

/** Null: none. Absent: as before. */
interface NetworkFields {
  readonly network?: string | null | undefined;
  readonly alias?: string | null | undefined;
}

/** Who asks for it, and for which container. */
interface NetworkCall {
  readonly caller: Caller;
  /** Undefined: one that is about to be made. */
  readonly containerId?: string;
  readonly engine: Pick<Engine, 'reservedAliases'>;
}

/**
 * The membership after a call. Throws Refusal `invalid_request` for an alias outside of a network, and for one that
 * the engine cannot give; otherwise as `placeIn`.
 */
export async function wantedMembership(
  tx: Tx,
  before: NetworkMembership | undefined,
  fields: NetworkFields,
  asked: NetworkCall,
): Promise<NetworkMembership | undefined> {
  const name = fields.network === undefined ? (before?.name ?? null) : fields.network;
  if (name === null) {
    if (fields.alias) throw invalidField('alias', 'is the name in a private network: say "network" as well');
    return undefined;
  }
  const alias = fields.alias === undefined ? (before?.alias ?? null) : fields.alias;
  if (before !== undefined && name === before.name && alias === before.alias) return before;
  if (alias !== null && asked.engine.reservedAliases.includes(alias))
    throw invalidField('alias', `must not be "${alias}", which the cluster uses beside each container`);
  const members = await membersOf(tx, asked.caller.userId, name);
  const place = placeIn(members, { name, alias }, asked);
  return { name, alias, place };
}

/**
 * The place of a container in a network with these members. Throws Refusal `missing_scope` when a token would reach
 * containers that it may not change, `conflict` when another has the alias or the network is full.
 */
function placeIn(
  members: readonly NetworkMember[],
  { name, alias }: Pick<NetworkMembership, 'name' | 'alias'>,
  { caller, containerId }: Pick<NetworkCall, 'caller' | 'containerId'>,
): number {
  const others = members.filter(({ id }) => id !== containerId);
  const { scopes, userId } = caller;
  const { key, action } = ofContainer('update').scope;
  if (scopes !== undefined && others.some(({ id }) => !grants(scopes, key(userId, { id }), action)))
    throw new Refusal('missing_scope', {
      message: `This token may not join the network ${name}: it may not update all containers that are in it.`,
    });
  const holder = alias === null ? undefined : others.find((other) => other.alias === alias);
  if (holder !== undefined) {
    const who = `${holder.name} (${holder.id})`;
    const advice = holder.isGoing ? ', which is being deleted: try again soon.' : ': choose another alias.';
    throw new Refusal('conflict', { message: `In the network ${name}, "${alias}" is the container ${who}${advice}` });
  }
  const [free] = freePlaces(members);
  const place = members.find(({ id }) => id === containerId)?.place ?? free;
  if (place === undefined && others.length < MAX_PLACE)
    throw new Refusal('conflict', {
      message: `The network ${name} has no place now, since containers of it are changed: try again in a minute.`,
    });
  if (place === undefined || others.length >= MAX_PLACE)
    throw new Refusal('conflict', { message: `The network ${name} has ${MAX_PLACE} members, which is the limit.` });
  return place;
}

/**
 * Where the successor of a container is in the private network of that one: at the place that the one before that had,
 * so that an address which somebody remembers leads to no other member; for the first time at the last of the free
 * places, since new members get the first. Undefined: it is in none. Rejects with EngineError `unavailable` when no
 * place is free.
 */
export async function placeBeside(
  tx: Tx,
  { id, userId, network }: Pick<ContainerRow, 'id' | 'userId' | 'network'>,
): Promise<PrivateNetwork | undefined> {
  if (network === undefined) return undefined;
  const members = await membersOf(tx, userId, network.name);
  const former = members.find((one) => one.id === id)?.formerPlace ?? undefined;
  // Its own predecessor is ended before.
  const isFree = former !== undefined && !members.some((one) => one.place === former);
  const fresh = freePlaces(members);
  const place = isFree ? former : (fresh.findLast((each) => !members.some(had(each))) ?? fresh.at(-1));
  if (place === undefined) throw new EngineError('unavailable', `No place is free in the network ${network.name}.`);
  return { owner: userId, name: network.name, alias: network.alias, place };
}

/**
 * Where the release command of a container is in the private network of that one, for some minutes: where no other
 * container was before, and neither where new members come nor where successors do, if there is such a place.
 * Otherwise as `placeBeside`.
 */
export async function placeApart(
  tx: Tx,
  { userId, network }: Pick<ContainerRow, 'userId' | 'network'>,
): Promise<PrivateNetwork | undefined> {
  if (network === undefined) return undefined;
  const members = await membersOf(tx, userId, network.name);
  // Of a container that was changed, the one before may still be there.
  const apart = freePlaces(members).filter((each) => !members.some(had(each)));
  const place = apart[Math.floor((apart.length - 1) / 2)];
  if (place === undefined) throw new EngineError('unavailable', `No place is free in the network ${network.name}.`);
  return { owner: userId, name: network.name, alias: network.alias, place };
}

function had(place: number): (member: NetworkMember) => boolean {
  return ({ formerPlace }) => formerPlace === place;
}

/** Whether a container can have the place that its successor has in the private network, or none. */
export async function isPlaceFree(
  tx: Tx,
  { id, userId, network }: Pick<ContainerRow, 'id' | 'userId' | 'network'>,
  place: number | null,
): Promise<boolean> {
  if (network === undefined || place === null) return network === undefined && place === null;
  return freePlaces((await membersOf(tx, userId, network.name)).filter((one) => one.id !== id)).includes(place);
}
