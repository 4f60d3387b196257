/** A small service that lives on placement: accounts whose every write is fenced, and which tell their followers. */
import { z } from 'zod';
import { Refusal } from '../../../proto/errors.ts';
import type { ShardLease } from '../../../proto/ports/placement.ts';
import type { Db } from '../../../storage/db.ts';
import { fence } from '../../../storage/fenced.ts';
import { dispatch, type EntityKind, type Ref, type StopReason } from '../../../supervision/index.ts';
import { type Codec, jsonCodec, type PlacedKind } from '../../../supervision/placement/index.ts';

export const BANK_SQL = `
  create table accounts (id text primary key, balance int not null default 0);
  create table deposits (op text not null, account text not null, epoch bigint not null, n int generated always as identity);
  insert into accounts select 'acc' || n from generate_series(1, 40) n`;

export type News = { readonly account: string; readonly balance: number };

export type AccountMessage =
  | { readonly type: 'deposit'; readonly op: string; readonly amount: number; readonly replyTo: Ref<number> }
  | { readonly type: 'note'; readonly op: string }
  | { readonly type: 'balance'; readonly replyTo: Ref<number> }
  /** Answers when the test says so. */
  | { readonly type: 'wait'; readonly replyTo: Ref<number> }
  | { readonly type: 'refuse'; readonly replyTo: Ref<number> }
  | { readonly type: 'follow'; readonly follower: Ref<News>; readonly replyTo: Ref<number> }
  | { readonly type: 'forward'; readonly to: string; readonly replyTo: Ref<number> }
  | { readonly type: 'gone'; readonly follower: Ref<News>; readonly reason: StopReason };

const balance = z.int();
const balanceCodec: Codec<number> = jsonCodec((value) => balance.parse(value));
const newsSchema = z.object({ account: z.string(), balance: z.int() });
const newsCodec: Codec<News> = jsonCodec((value) => newsSchema.parse(value));
const wireSchema = z.discriminatedUnion('type', [
  z.object({ type: z.literal('deposit'), op: z.string(), amount: z.int(), replyTo: z.unknown() }),
  z.object({ type: z.literal('note'), op: z.string() }),
  z.object({ type: z.enum(['balance', 'wait', 'refuse']), replyTo: z.unknown() }),
  z.object({ type: z.literal('follow'), follower: z.unknown(), replyTo: z.unknown() }),
  z.object({ type: z.literal('forward'), to: z.string(), replyTo: z.unknown() }),
]);

const codec: Codec<AccountMessage> = {
  encode(message, refs) {
    switch (message.type) {
      case 'note':
        return message;
      case 'gone':
        throw new TypeError('an account tells itself only');
      case 'follow':
        return {
          type: 'follow',
          follower: refs.out(message.follower, newsCodec),
          replyTo: refs.out(message.replyTo, balanceCodec),
        };
      default:
        return { ...message, replyTo: refs.out(message.replyTo, balanceCodec) };
    }
  },
  decode(wire, refs) {
    const message = wireSchema.parse(wire);
    if (message.type === 'note') return message;
    const replyTo = refs.in(message.replyTo, balanceCodec);
    if (message.type === 'follow') return { ...message, follower: refs.in(message.follower, newsCodec), replyTo };
    return { ...message, replyTo };
  },
};

export const ACCOUNT: PlacedKind<AccountMessage> = { kind: 'bank/account', service: 'bank', codec };

interface Account {
  /** From the moment the row was read. */
  readonly lease: ShardLease;
  balance: number;
  readonly followers: Set<Ref<News>>;
}

/** What a node's accounts need, and what they tell of. */
export interface BankDeps {
  readonly db: Db;
  lease(id: string): ShardLease;
  /** Awaited by `wait`. */
  waits(): Promise<void>;
  onGone(id: string, reason: StopReason): void;
  /** Sends an account a message wherever it is. */
  tell(id: string, message: AccountMessage): void;
}

const row = z.object({ balance: z.int() });

/** The kind of entity. */
export function accountKind(deps: BankDeps): EntityKind<AccountMessage, Account> {
  const { db } = deps;
  const deposit = async (state: Account, id: string, op: string, amount: number): Promise<void> => {
    const updated = await db.tx(async (tx) => {
      await fence(tx, state.lease);
      await tx.run('insert into deposits (op, account, epoch) values ($1, $2, $3)', [op, id, state.lease.epoch]);
      return tx.one(row, 'update accounts set balance = balance + $2 where id = $1 returning balance', [id, amount]);
    });
    state.balance = updated?.balance ?? 0;
    for (const follower of state.followers) dispatch(follower, { account: id, balance: state.balance });
  };
  return {
    kind: ACCOUNT.kind,
    sleepAfterMs: 60_000,
    backoff: { minMs: 1, maxMs: 5 },
    shutdownMs: 2000,
    async activate(id) {
      // Before the row is read: what is read later is at least as new as the lease.
      const lease = deps.lease(id);
      const found = await db.one(row, 'select balance from accounts where id = $1', [id]);
      return found && { lease, balance: found.balance, followers: new Set() };
    },
    async handle(state, message, ctx) {
      switch (message.type) {
        case 'deposit':
          await deposit(state, ctx.id, message.op, message.amount);
          break;
        case 'note':
          await deposit(state, ctx.id, message.op, 1);
          return state;
        case 'wait':
          await deps.waits();
          break;
        case 'refuse':
          throw new Refusal('limit_reached', { message: 'Enough.', retryAfter: 3 });
        case 'follow': {
          const { follower } = message;
          state.followers.add(follower);
          ctx.watch(follower, (reason) => ({ type: 'gone', follower, reason }));
          break;
        }
        case 'forward':
          deps.tell(message.to, { type: 'balance', replyTo: message.replyTo });
          return state;
        case 'gone':
          state.followers.delete(message.follower);
          deps.onGone(ctx.id, message.reason);
          return state;
      }
      dispatch(message.replyTo, state.balance);
      return state;
    },
  };
}
