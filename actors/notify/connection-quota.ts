/**
 * Holds one user to a number of open sockets over all processes (key: user id). In each process the user's own actor
 * counts the sockets there and tells this one; of too many, the newest are closed where they are. News does not pass
 * here, so sockets are told of it whoever holds this actor, and while no node does.
 *
 *   asleep -- a process tells what it has --> awake -- the last process has none or is gone --> asleep
 */
import { z } from 'zod';
import { USER_LIMITS } from '../../proto/user-limits.ts';
import { type AnyRef, dispatch, type EntityContext, type EntityKind, type Ref } from '../../supervision/index.ts';
import { type Codec, field, type PlacedKind } from '../../supervision/placement/index.ts';
import { watchedOnly } from '../service/codecs.ts';
import type { CurrentLimit } from '../service/user-limits.ts';

/** Names between nodes. They stay: nodes of another version know them by these. */
const WIRE_KIND = 'notify/seats';
const WIRE_COUNTED = 'seated';

/** The service whose nodes hold them. */
const SERVICE = 'notify';

/** What the user's actor in one process is told. */
export type NodeConnections =
  /** That actor counts its sockets. When it ends, because it moves or its node died, it is time to say them again. */
  | { readonly type: 'counted'; readonly by: AnyRef }
  /** Say again what is there: the quota cannot be enforced without. */
  | { readonly type: 'say' }
  /** Close all sockets but the `most` oldest. */
  | { readonly type: 'keep'; readonly most: number };

/** What the actor is told. */
export interface QuotaMessage {
  /** A process has these sockets of the user, and no others. Repeated while there are any. */
  readonly type: 'present';
  readonly node: Ref<NodeConnections>;
  /** When each was opened, unix ms. */
  readonly opened: readonly number[];
  /** As that process knows it; undefined for a process of the version before, which knows none. */
  readonly limit?: CurrentLimit | undefined;
}

type CountMessage = QuotaMessage | { readonly type: 'gone'; readonly node: Ref<NodeConnections> };

interface ProcessSockets {
  readonly opened: readonly number[];
  /** It said so since there were too many: before, its process may have died. */
  readonly isSure: boolean;
}

interface QuotaState {
  readonly nodes: Map<Ref<NodeConnections>, ProcessSockets>;
  limit: CurrentLimit;
}

const SLEEP_AFTER_MS = 60_000;

/** Of a limit as two know it, the one that was changed last. */
export function newest(one: CurrentLimit, other: CurrentLimit): CurrentLimit {
  return other.changedAt >= one.changedAt ? other : one;
}

/** The kind, for the service's tree. `all`: how many each user may have for whom the operator set nothing. */
export function quotaKind(all: number): EntityKind<CountMessage, QuotaState> {
  return {
    kind: CONNECTION_QUOTA.kind,
    sleepAfterMs: SLEEP_AFTER_MS,
    activate: () => ({ nodes: new Map(), limit: { most: all, changedAt: 0 } }),
    handle: (state, message, ctx) => {
      const { nodes } = state;
      if (message.type === 'gone') nodes.delete(message.node);
      else count(state, message, ctx);
      enforce(state);
      ctx.keepAwake(nodes.size > 0);
      if (nodes.size === 0) ctx.sleep();
      return state;
    },
  };
}

function count(state: QuotaState, { node, opened, limit }: QuotaMessage, ctx: EntityContext<CountMessage>): void {
  const { nodes } = state;
  if (limit !== undefined) state.limit = newest(state.limit, limit);
  if (opened.length === 0) {
    nodes.delete(node);
    ctx.unwatch(node);
    return;
  }
  nodes.set(node, { opened, isSure: true });
  ctx.watch(node, () => ({ type: 'gone', node }));
  dispatch(node, { type: 'counted', by: ctx.self });
}

/**
 * Asks before it closes: of a process that died it is known only later, and its sockets must not count against those
 * that came back.
 */
function enforce({ nodes, limit }: QuotaState): void {
  const { isFull, most } = oldest(
    [...nodes.values()].map(({ opened }) => opened),
    limit,
  );
  let isWaiting = false;
  for (const [node, known] of nodes) {
    if (isFull && known.isSure) continue;
    // Whoever says so next begins a new count, for which the others are asked.
    if (!isFull) nodes.set(node, { ...known, isSure: false });
    else {
      isWaiting = true;
      dispatch(node, { type: 'say' });
    }
  }
  if (!isFull || isWaiting) return;
  for (const [index, [node, { opened }]] of [...nodes].entries()) {
    const kept = most[index] ?? 0;
    if (kept < opened.length) dispatch(node, { type: 'keep', most: kept });
  }
}

/**
 * Whether there are too many, and how many each process keeps then: the oldest of all. Those that were there before the
 * limit was changed stay.
 */
export function oldest(
  nodes: readonly (readonly number[])[],
  { most, changedAt }: CurrentLimit,
): {
  readonly isFull: boolean;
  readonly most: readonly number[];
} {
  const all = nodes.flatMap((opened, node) => opened.map((at) => ({ at, node })));
  const room = Math.max(most, all.filter(({ at }) => at < changedAt).length);
  const kept = all.toSorted((one, other) => one.at - other.at).slice(0, room);
  return {
    isFull: all.length > room,
    most: nodes.map((_, index) => kept.filter((socket) => socket.node === index).length),
  };
}

const orders = z.discriminatedUnion('type', [
  z.object({ type: z.literal('say') }),
  z.object({ type: z.literal('keep'), most: z.int().min(0) }),
]);

const nodeCodec: Codec<NodeConnections> = {
  encode(news, refs) {
    if (news.type === 'counted') return { type: WIRE_COUNTED, by: refs.out<never>(news.by, watchedOnly) };
    return { ...news };
  },
  decode(wire, refs): NodeConnections {
    if (field(wire, 'type') === WIRE_COUNTED)
      return { type: 'counted', by: refs.in<never>(field(wire, 'by'), watchedOnly) };
    return orders.parse(wire);
  },
};

const openedTimes = z.array(z.number()).max(USER_LIMITS.notification_sockets.most);
const limitSchema = z.object({ most: z.int().min(0), changedAt: z.number() }).optional();

export const CONNECTION_QUOTA: PlacedKind<QuotaMessage> = {
  kind: WIRE_KIND,
  service: SERVICE,
  codec: {
    encode: ({ node, opened, limit }, refs) => ({
      type: 'present',
      room: refs.out(node, nodeCodec),
      opened,
      limit: limit && { ...limit },
    }),
    decode: (wire, refs): QuotaMessage => ({
      type: 'present',
      opened: openedTimes.parse(field(wire, 'opened')),
      limit: limitSchema.parse(field(wire, 'limit')),
      node: refs.in(field(wire, 'room'), nodeCodec),
    }),
  },
};
