/**
 * The places of one user (kind `notify/seats`, key: user id): how many sockets all processes together may have open. In
 * each process the user's actor looks after the sockets there and says how many they are; what is one too many is
 * closed where it is, the youngest first. News does not pass here, so that sockets are told of it whoever holds this
 * actor, and while nobody does.
 *
 *   asleep -- a room says what it has --> awake -- the last room is empty or gone --> asleep
 */
import { z } from 'zod';
import { MAX_SOCKETS } from '../../proto/notify/endpoints.ts';
import { type AnyRef, dispatch, type EntityContext, type EntityKind, type Ref } from '../../supervision/index.ts';
import { type Codec, field, type PlacedKind } from '../../supervision/placement/index.ts';
import { watchedOnly } from '../service/connection-codec.ts';

/** The service whose nodes hold them. */
const SERVICE = 'notify';

/** What a room, the user's actor in one process, is told. */
export type NodeConnections =
  /**
   * That actor counts its sockets. When it ends, because it moves or its node died, it is time to say again what is
   * there.
   */
  | { readonly type: 'seated'; readonly by: AnyRef }
  /** Say again what is there: somebody waits to know. */
  | { readonly type: 'say' }
  /** Close all sockets but the `most` oldest. */
  | { readonly type: 'keep'; readonly most: number };

/** What the actor is told. */
export interface QuotaMessage {
  /** This room has these sockets, and no others. Repeated while there are any. */
  readonly type: 'present';
  readonly room: Ref<NodeConnections>;
  /** When each was opened, unix ms; at most MAX_SOCKETS. */
  readonly opened: readonly number[];
}

type SeatsMessage = QuotaMessage | { readonly type: 'gone'; readonly room: Ref<NodeConnections> };

interface Room {
  readonly opened: readonly number[];
  /** It said so since there were too many: before, its process may have died. */
  readonly isSure: boolean;
}

type SeatsState = Map<Ref<NodeConnections>, Room>;

const SLEEP_AFTER_MS = 60_000;

/** The kind, for the service's tree. */
export function quotaKind(): EntityKind<SeatsMessage, SeatsState> {
  return {
    kind: SEATS.kind,
    sleepAfterMs: SLEEP_AFTER_MS,
    activate: () => new Map(),
    handle: (rooms, message, ctx) => {
      if (message.type === 'gone') rooms.delete(message.room);
      else take(rooms, message, ctx);
      settle(rooms);
      ctx.keepAwake(rooms.size > 0);
      if (rooms.size === 0) ctx.sleep();
      return rooms;
    },
  };
}

function take(rooms: SeatsState, { room, opened }: QuotaMessage, ctx: EntityContext<SeatsMessage>): void {
  if (opened.length === 0) {
    rooms.delete(room);
    ctx.unwatch(room);
    return;
  }
  rooms.set(room, { opened, isSure: true });
  ctx.watch(room, () => ({ type: 'gone', room }));
  dispatch(room, { type: 'seated', by: ctx.self });
}

/**
 * Asks before it closes: of a process that died it is known only later, and its sockets must not count against those
 * that came back.
 */
function settle(rooms: SeatsState): void {
  const { isFull, most } = oldest([...rooms.values()].map(({ opened }) => opened));
  let isWaiting = false;
  for (const [room, known] of rooms) {
    if (isFull && known.isSure) continue;
    // Whoever says so next begins a new count, for which the others are asked.
    if (!isFull) rooms.set(room, { ...known, isSure: false });
    else {
      isWaiting = true;
      dispatch(room, { type: 'say' });
    }
  }
  if (!isFull || isWaiting) return;
  for (const [index, [room, { opened }]] of [...rooms].entries()) {
    const kept = most[index] ?? 0;
    if (kept < opened.length) dispatch(room, { type: 'keep', most: kept });
  }
}

/** Whether there are too many, and how many each room keeps then: the oldest of all. */
export function oldest(rooms: readonly (readonly number[])[]): {
  readonly isFull: boolean;
  readonly most: readonly number[];
} {
  const all = rooms.flatMap((opened, room) => opened.map((at) => ({ at, room })));
  const kept = all.toSorted((one, other) => one.at - other.at).slice(0, MAX_SOCKETS);
  return {
    isFull: all.length > MAX_SOCKETS,
    most: rooms.map((_, index) => kept.filter((seat) => seat.room === index).length),
  };
}

const orders = z.discriminatedUnion('type', [
  z.object({ type: z.literal('say') }),
  z.object({ type: z.literal('keep'), most: z.int().min(0) }),
]);

const roomCodec: Codec<NodeConnections> = {
  encode(news, refs) {
    if (news.type === 'seated') return { type: 'seated', by: refs.out<never>(news.by, watchedOnly) };
    return { ...news };
  },
  decode(wire, refs): NodeConnections {
    if (field(wire, 'type') === 'seated') return { type: 'seated', by: refs.in<never>(field(wire, 'by'), watchedOnly) };
    return orders.parse(wire);
  },
};

const openedTimes = z.array(z.number()).max(MAX_SOCKETS);

export const SEATS: PlacedKind<QuotaMessage> = {
  kind: 'notify/seats',
  service: SERVICE,
  codec: {
    encode: ({ room, opened }, refs) => ({ type: 'present', room: refs.out(room, roomCodec), opened }),
    decode: (wire, refs): QuotaMessage => ({
      type: 'present',
      opened: openedTimes.parse(field(wire, 'opened')),
      room: refs.in(field(wire, 'room'), roomCodec),
    }),
  },
};
