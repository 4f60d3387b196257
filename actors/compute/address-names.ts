/** What a call says of a container's readable address, and who may have which. */

import { MAX_RESERVED_NAMES, RESERVED_DAYS } from '../../proto/compute/address-names.ts';
import { ofContainer, ofContainers } from '../../proto/compute/fields.ts';
import { listAddressNames, type OwnNameView } from '../../proto/compute/name-listing.ts';
import type { Caller } from '../../proto/endpoint.ts';
import { Refusal } from '../../proto/errors.ts';
import { grants } from '../../proto/scopes.ts';
import {
  type FreedName,
  freedNames,
  freeName,
  holderOf,
  type NameHolder,
  ownedNames,
  takeName,
  touchContainer,
} from '../../storage/compute/address-names.ts';
import type { ContainerRow } from '../../storage/compute/containers.ts';
import { tellCompute } from '../../storage/compute/news.ts';
import type { Tx } from '../../storage/db.ts';
import { type Handler, handler } from '../service/dispatch.ts';
import type { ComputeDeps } from './deps.ts';
import type { ComputeUserState } from './user-state.ts';

const DAY_MS = 24 * 3_600_000;

/**
 * Gives a container the name that a call says (null: none). Resolves with its row; undefined when it is so already, or
 * nothing is said. Throws Refusal `conflict` for a name that somebody else has or may have again, `missing_scope` for
 * one that the user gave up when a token may not change all containers, `limit_reached` for a new one of somebody who
 * gave up too many, `not_found` for a container that is going.
 */
export async function changeAddressName(
  tx: Tx,
  row: Pick<ContainerRow, 'id' | 'userId' | 'addressName'>,
  wanted: string | null | undefined,
  { caller, now }: { readonly caller: Caller; readonly now: number },
): Promise<ContainerRow | undefined> {
  if (wanted === undefined || wanted === row.addressName) return undefined;
  if (wanted === null) await freeAddressName(tx, row.id, now);
  else await take(tx, row, wanted, { caller, now });
  const changed = await touchContainer(tx, row.id);
  if (changed === undefined) throw new Refusal('not_found');
  await tellCompute(tx, { kind: 'ingress', containerId: row.id });
  return changed;
}

/** The handler of the call that lists a user's names. */
export function namesHandler({ db, clock }: Pick<ComputeDeps, 'db' | 'clock'>): Handler<ComputeUserState> {
  return handler(listAddressNames, async ({ userId }: ComputeUserState) => {
    const now = clock.now();
    const names = await ownedNames(db, { userId, now: new Date(now), until: reservedUntil(now) });
    const address_names = names.map(({ name, containerId, reservedUntil }): OwnNameView => {
      if (containerId !== null) return { name, container_id: containerId };
      return { name, reserved_until: reservedUntil.toISOString() };
    });
    return { address_names, reserved_limit: MAX_RESERVED_NAMES };
  });
}

/** The container has no name any more: the one it had is reserved for its user. */
export function freeAddressName(tx: Tx, id: string, now: number): Promise<unknown> {
  return freeName(tx, id, reservedUntil(now));
}

function reservedUntil(now: number): Date {
  return new Date(now + RESERVED_DAYS * DAY_MS);
}

async function take(
  tx: Tx,
  { id, userId }: Pick<ContainerRow, 'id' | 'userId'>,
  name: string,
  { caller, now }: { readonly caller: Caller; readonly now: number },
): Promise<void> {
  const former = await freedNames(tx, userId);
  // Another container may have had it, whose visitors come to this one then.
  const takesReserved = mayChangeAll(caller);
  if (!(await takeName(tx, name, { id, userId, now: new Date(now), until: reservedUntil(now), takesReserved }))) {
    const holder = await holderOf(tx, name);
    if (holder?.userId === userId && holder.containerId === null)
      throw new Refusal('missing_scope', { message: ownReservedText(name, userId) });
    throw new Refusal('conflict', { message: takenText(name, holder, caller) });
  }
  const isOwn = former.some((freed) => freed.name === name);
  const freed = isOwn ? [] : await freedNames(tx, userId);
  if (freed.length > MAX_RESERVED_NAMES) throw new Refusal('limit_reached', { message: tooManyText(freed, caller) });
}

/** Whether it is the user, or a token that may change all containers of theirs. */
function mayChangeAll({ userId, scopes }: Caller): boolean {
  const { key, action } = ofContainers('update').scope;
  return scopes === undefined || grants(scopes, key(userId), action);
}

function ownReservedText(name: string, userId: string): string {
  return (
    `The address "${name}" was given up by one of your containers: a token takes it again only with "update" on ` +
    `compute.${userId}.containers. Choose another, or give it as the user.`
  );
}

/** Strangers learn that a name cannot be had, and when it may be: nothing of who has it. */
function takenText(name: string, holder: NameHolder | undefined, { userId, scopes }: Caller): string {
  const isOwn = holder?.userId === userId;
  if (isOwn && holder.containerId !== null) {
    const { key, action } = ofContainer('update').scope;
    const { containerId } = holder;
    if (scopes === undefined || grants(scopes, key(userId, { id: containerId }), action))
      return (
        `"${name}" is the address of your container ${holder.containerName} (${containerId}): take it away there ` +
        `first, \`troupe update ${containerId} --address none\`.`
      );
  }
  if (!isOwn && holder?.containerId === null && holder.reservedUntil !== null)
    return (
      `The address "${name}" was given up lately, and is reserved until ${dayAfter(holder.reservedUntil)}: choose ` +
      'another, or try again then.'
    );
  return `The address "${name}" is taken: choose another.`;
}

function tooManyText(freed: readonly FreedName[], caller: Caller): string {
  const names = freed.slice(0, MAX_RESERVED_NAMES).map(({ name }) => name);
  // A token for one container need not know what others were called.
  const which = caller.scopes === undefined ? ` They are ${names.join(', ')}.` : '';
  const [first] = freed;
  const day = first === undefined ? '' : ` on ${dayAfter(first.reservedUntil)}`;
  const advice = mayChangeAll(caller) ? 'take one of them again, or wait' : 'wait';
  return (
    `You gave up ${MAX_RESERVED_NAMES} addresses, which are reserved for you, and that is the limit: ${advice} until ` +
    `the first is free${day}.${which}`
  );
}

/** The day on which a time is surely over: the hour would tell a stranger when somebody did something. */
function dayAfter(time: Date): string {
  return new Date(time.getTime() + DAY_MS).toISOString().slice(0, 10);
}
