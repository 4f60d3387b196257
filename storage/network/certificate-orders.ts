/**
 * SQL of the orders of certificates: who holds which, and what is due. Times are the database's: nodes whose clocks
 * differ must agree on leases and on when to try again.
 */
import type { KeyObject } from 'node:crypto';
import { z } from 'zod';
import type { HeldShards } from '../../proto/ports/placement.ts';
import type { Db, Queries } from '../db.ts';
import { ofShards } from '../placement/shards.ts';
import { manyValues, oneValue } from '../rows.ts';
import { openedOrNone, seal } from '../seal.ts';
import { isShareUsed, KEPT_FOR_RENEWALS, noteShare, takeOrder } from './acme.ts';

/** What the sealed key of an order is bound to. */
export const orderContext = (hostname: string) => `certificates/${hostname}/order_key`;

/** Whether a hostname is a verified mapping; in a transaction it stays one until that ends. */
export async function isMapped(queries: Queries, hostname: string): Promise<boolean> {
  const mapped = `select from domain_mappings where domain = $1 and status = 'verified' for share`;
  return (await queries.run(mapped, [hostname])) === 1;
}

/** An order that we hold. */
export interface OrderLease {
  readonly hostname: string;
  readonly epoch: number;
  readonly orderUrl: string | undefined;
  /** Key of the certificate that is ordered, PEM; undefined when the order is new. */
  readonly key: string | undefined;
  readonly attempts: number;
}

/**
 * Why there is nothing to order, or what is. `held`: somebody orders; `no_budget`: the account has to wait; `no_share`:
 * the user has.
 */
type OrderStart = OrderLease | 'not_mapped' | 'held' | 'waiting' | 'fresh' | 'no_budget' | 'no_share';

const startRow = z.object({
  epoch: z.number(),
  order_url: z.string().nullable(),
  order_key_sealed: z.instanceof(Buffer).nullable(),
  attempts: z.number(),
  is_held: z.boolean(),
  is_waiting: z.boolean(),
  is_fresh: z.boolean(),
  is_new: z.boolean(),
});

/**
 * Takes the order of a hostname for `leaseMs`, if it is a verified mapping, is due, and nobody else has it: of all that
 * ask, one gets it.
 */
export function startOrder(
  db: Pick<Db, 'tx'>,
  hostname: string,
  options: {
    readonly directoryUrl: string;
    readonly leaseMs: number;
    readonly sealKey: KeyObject;
    /**
     * The domain that somebody registered, of which the hostname is part: each user has a daily share of new names
     * below it.
     */
    readonly registrable?: string;
  },
): Promise<OrderStart> {
  return db.tx(async (tx): Promise<OrderStart> => {
    const userId = await oneValue(
      tx,
      z.string(),
      `select user_id from domain_mappings where domain = $1 and status = 'verified' for share`,
      [hostname],
    );
    if (userId === undefined) return 'not_mapped';
    await tx.run('insert into certificates (hostname) values ($1) on conflict do nothing', [hostname]);
    const row = await tx.one(
      startRow,
      `select epoch, order_url, order_key_sealed, attempts, coalesce(lease_until > clock_timestamp(), false) as is_held,
         coalesce(next_try > clock_timestamp(), false) as is_waiting, coalesce(renew_at > clock_timestamp(), false) as
         is_fresh,
         chain is null as is_new
       from certificates where hostname = $1 for update`,
      [hostname],
    );
    if (row === undefined || row.is_held) return 'held';
    if (row.is_fresh) return 'fresh';
    if (row.is_waiting) return 'waiting';
    // An order that was placed is paid for.
    if (row.order_url === null) {
      const share = { userId, registrable: options.registrable ?? hostname };
      if (row.is_new && (await isShareUsed(tx, share))) return 'no_share';
      if (!(await takeOrder(tx, options.directoryUrl, row.is_new ? KEPT_FOR_RENEWALS : 0))) return 'no_budget';
      if (row.is_new) await noteShare(tx, share);
    }
    await tx.run(
      `update certificates set epoch = epoch + 1, lease_until = clock_timestamp() + $2 * interval '1 ms' where ` +
        'hostname = $1',
      [hostname, options.leaseMs],
    );
    const { order_url, order_key_sealed, attempts } = row;
    return {
      hostname,
      epoch: row.epoch + 1,
      orderUrl: order_url ?? undefined,
      // One that does not open any more (ENCRYPTION_KEY was changed) is as good as none: another order is placed.
      key:
        order_key_sealed === null
          ? undefined
          : openedOrNone(options.sealKey, orderContext(hostname), order_key_sealed)?.toString(),
      attempts,
    };
  });
}

/** Goes on holding it; false when another has it, or the mapping is gone. */
export function renewOrder(db: Db, lease: OrderLease, leaseMs: number): Promise<boolean> {
  return db.tx(async (tx) => {
    if (!(await isMapped(tx, lease.hostname))) return false;
    const renewed = await tx.run(
      `update certificates set lease_until = clock_timestamp() + $3 * interval '1 ms'
       where hostname = $1 and epoch = $2`,
      [lease.hostname, lease.epoch, leaseMs],
    );
    return renewed === 1;
  });
}

/** Writes down where the order is, and its key; both undefined forget it. False when another holds the order. */
export async function noteOrder(
  db: Queries,
  { hostname, epoch }: OrderLease,
  sealKey: KeyObject,
  order: { readonly url: string; readonly key: string } | undefined,
): Promise<boolean> {
  const sealed = order === undefined ? null : seal(sealKey, orderContext(hostname), Buffer.from(order.key));
  const note = 'update certificates set order_url = $3, order_key_sealed = $4 where hostname = $1 and epoch = $2';
  return (await db.run(note, [hostname, epoch, order?.url ?? null, sealed])) === 1;
}

/** Gives the order back after a failure, with why and when it is tried again. What is served goes on. */
export async function failOrder(
  db: Queries,
  { hostname, epoch }: OrderLease,
  failure: {
    readonly inMs: number;
    readonly code: string;
    readonly problem: string | undefined;
    readonly text: string;
    /** Whether it counts: one that was only told to wait did nothing wrong. */
    readonly counts: boolean;
  },
): Promise<void> {
  await db.run(
    `update certificates set lease_until = null, tried_at = clock_timestamp(), attempts = attempts + $3, next_try =
      clock_timestamp() + $4 * interval '1 ms',
       last_code = $5, last_problem = $6, last_error = $7 where hostname = $1 and epoch = $2`,
    [hostname, epoch, failure.counts ? 1 : 0, failure.inMs, failure.code, failure.problem ?? null, failure.text],
  );
  await db.run('delete from acme_challenges where hostname = $1', [hostname]);
}

/** Puts off what is due and nobody does, without asking any authority. False when there is nothing to put off. */
export function postponeOrder(
  db: Pick<Db, 'tx'>,
  hostname: string,
  { inMs, code, text }: { readonly inMs: number; readonly code: string; readonly text: string },
): Promise<boolean> {
  return db.tx(async (tx) => {
    if (!(await isMapped(tx, hostname))) return false;
    await tx.run('insert into certificates (hostname) values ($1) on conflict do nothing', [hostname]);
    const put = await tx.run(
      `update certificates set attempts = attempts + 1, next_try = clock_timestamp() + $2 * interval '1 ms',
         tried_at = null, last_code = $3, last_problem = null, last_error = $4
       where hostname = $1 and coalesce(lease_until <= clock_timestamp(), true)
         and coalesce(next_try <= clock_timestamp(), true) and coalesce(renew_at <= clock_timestamp(), true)`,
      [hostname, inMs, code, text],
    );
    return put === 1;
  });
}

/**
 * The user says that all is right now: the next try is not waited for, but for `pauseMs` since the last that an
 * authority counted. One that was asked to wait, waits. Returns whether anything was waited for.
 */
export async function hastenOrder(db: Queries, hostname: string, pauseMs: number): Promise<boolean> {
  const hastened = await db.run(
    `update certificates set next_try = greatest(clock_timestamp(), tried_at + $2 * interval '1 ms')
     where hostname = $1 and next_try > greatest(clock_timestamp(), tried_at + $2 * interval '1 ms')
       and last_code is distinct from 'rate_limited' and last_code is distinct from 'daily_share'`,
    [hostname, pauseMs],
  );
  return hastened === 1;
}

/** Gives the order back as it is: whoever looks next takes it up. */
export async function releaseOrder(db: Queries, { hostname, epoch }: OrderLease): Promise<void> {
  await db.run('update certificates set lease_until = null where hostname = $1 and epoch = $2', [hostname, epoch]);
}

/**
 * At most `limit` verified hostnames (with `held`: of these shards) for which something is to be ordered now: renewals
 * first, those that end soonest before others; then new names, one of each user in turn, and first of who has had the
 * fewest orders today.
 */
export function dueHostnames(db: Queries, limit: number, held?: HeldShards): Promise<string[]> {
  const { filter, values } = ofShards('network/certificate', 'm.domain', held, 2);
  return manyValues(
    db,
    z.string(),
    `with due as (
       select m.domain as hostname, m.user_id, m.verified_at, c.not_after
       from domain_mappings m left join certificates c on c.hostname = m.domain
       where m.status = 'verified' and coalesce(c.renew_at <= clock_timestamp(), true)
         and coalesce(c.next_try <= clock_timestamp(), true) and coalesce(c.lease_until <= clock_timestamp(), true)
         and ${filter}
     ), had as (
       select user_id, sum(orders) as orders from acme_shares
       where day = (clock_timestamp() at time zone 'UTC')::date group by user_id
     )
     select hostname from due left join had using (user_id)
     order by not_after nulls last, coalesce(had.orders, 0) + row_number()
       over (partition by user_id, not_after is null order by verified_at, hostname), hostname limit $1`,
    [limit, ...values],
  );
}
